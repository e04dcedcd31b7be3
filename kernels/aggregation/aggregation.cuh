// The kernels of aggregation, for the module of a family: one translation unit includes this once.
#pragma once
#include "couplings.cuh"
#include "cycle.cuh"
#include "galerkin.cuh"
#include "pairs.cuh"

// A kernel of a family that calls aggregation::BODY with its ARGS; and one in f64 and f32.
#define AGGREGATION_KERNEL(NAME, ARGS, THREADS, BODY)                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(aggregation::ARGS a) { aggregation::BODY(a); }
#define AGGREGATION_IN_FORMATS(NAME, ARGS, THREADS, BODY)                                                              \
    AGGREGATION_KERNEL(NAME##_f64, ARGS<double>, THREADS, BODY)                                                        \
    AGGREGATION_KERNEL(NAME##_f32, ARGS<float>, THREADS, BODY)

namespace aggregation {
template <class V> __device__ inline void descend(const DescendArgs<V> &a) { descend<AllBlocks>(a.fine, a.coarse); }
template <class V> __device__ inline void ascend(const AscendArgs<V> &a) {
    ascend<AllBlocks>(a.fine, a.coarse_z, a.out, V(a.first), V(a.second));
}
template <class V> __device__ inline void subtract(const SubtractArgs<V> &a) { subtract<AllBlocks>(a.k, V(a.factor)); }
} // namespace aggregation

#define AGGREGATION_KERNELS(FAMILY)                                                                                    \
    AGGREGATION_KERNEL(FAMILY##_agg_set_free_f64, PairArgs, aggregation::THREADS, set_free)                            \
    AGGREGATION_KERNEL(FAMILY##_agg_point_f64, PairArgs, aggregation::THREADS, point)                                  \
    AGGREGATION_KERNEL(FAMILY##_agg_match_f64, PairArgs, aggregation::THREADS, match)                                  \
    AGGREGATION_KERNEL(FAMILY##_agg_mark_first_f64, NumberArgs, aggregation::THREADS, mark_first)                      \
    AGGREGATION_KERNEL(FAMILY##_agg_number_f64, NumberArgs, aggregation::THREADS, number)                              \
    AGGREGATION_KERNEL(FAMILY##_agg_sum_parts_f64, ScanArgs, aggregation::THREADS, sum_parts)                          \
    AGGREGATION_KERNEL(FAMILY##_agg_scan_parts_f64, ScanArgs, aggregation::THREADS, scan_parts)                        \
    AGGREGATION_KERNEL(FAMILY##_agg_scan_values_f64, ScanArgs, aggregation::THREADS, scan_values)                      \
    AGGREGATION_KERNEL(FAMILY##_agg_make_room_f64, GalerkinArgs, aggregation::THREADS, make_room)                      \
    AGGREGATION_KERNEL(FAMILY##_agg_sum_couplings_f64, GalerkinArgs, aggregation::THREADS, sum_couplings)              \
    AGGREGATION_IN_FORMATS(FAMILY##_agg_invert, InverseArgs, aggregation::SMALL_THREADS, invert)                      \
    AGGREGATION_IN_FORMATS(FAMILY##_agg_take_lengths, TakeArgs, aggregation::THREADS, take_lengths)                    \
    AGGREGATION_IN_FORMATS(FAMILY##_agg_take_rows, TakeArgs, aggregation::THREADS, take_rows)                          \
    AGGREGATION_IN_FORMATS(FAMILY##_agg_descend, DescendArgs, aggregation::THREADS, descend)                           \
    AGGREGATION_IN_FORMATS(FAMILY##_agg_ascend, AscendArgs, aggregation::THREADS, ascend)                              \
    AGGREGATION_IN_FORMATS(FAMILY##_agg_subtract, SubtractArgs, aggregation::THREADS, subtract)                        \
    AGGREGATION_IN_FORMATS(FAMILY##_agg_solve_small, SmallArgs, aggregation::SMALL_THREADS, solve_small)
