// Kernels of multigrid by aggregation. The translation unit of a family includes this file once.
#pragma once
#include "../common/inverse.cuh"
#include "couplings.cuh"
#include "cycle.cuh"
#include "galerkin.cuh"
#include "pairs.cuh"

// AGGREGATION_KERNEL defines a kernel that calls aggregation::BODY with its argument, a struct ARGS.
// AGGREGATION_IN_FORMATS defines the kernel in f64 and in f32.
#define AGGREGATION_KERNEL(NAME, ARGS, THREADS, BODY)                                                                  \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(aggregation::ARGS a) { aggregation::BODY(a); }
#define AGGREGATION_IN_FORMATS(NAME, ARGS, THREADS, BODY)                                                              \
    AGGREGATION_KERNEL(NAME##_f64, ARGS<double>, THREADS, BODY)                                                        \
    AGGREGATION_KERNEL(NAME##_f32, ARGS<float>, THREADS, BODY)

// Defines a kernel that calls inverse::BODY (kernels/common/inverse.cuh), with at least two thread blocks per
// multiprocessor.
#define INVERSE_KERNEL(NAME, ARGS, BODY)                                                                               \
    extern "C" __global__ void __launch_bounds__(inverse::THREADS, 2) NAME(inverse::ARGS a) { inverse::BODY(a); }

#define AGGREGATION_KERNELS(FAMILY)                                                                                    \
    AGGREGATION_KERNEL(FAMILY##_agg_begin_pass_f64, PairArgs, aggregation::THREADS, begin_pass)                        \
    AGGREGATION_KERNEL(FAMILY##_agg_point_at_neighbour_f64, PairArgs, aggregation::THREADS, point_at_neighbour)        \
    AGGREGATION_KERNEL(FAMILY##_agg_match_2_f64, PairArgs, aggregation::THREADS, match_nodes<2>)                       \
    AGGREGATION_KERNEL(FAMILY##_agg_match_4_f64, PairArgs, aggregation::THREADS, match_nodes<4>)                       \
    AGGREGATION_KERNEL(FAMILY##_agg_match_8_f64, PairArgs, aggregation::THREADS, match_nodes<8>)                       \
    AGGREGATION_KERNEL(FAMILY##_agg_mark_first_f64, NumberArgs, aggregation::THREADS, mark_first)                      \
    AGGREGATION_KERNEL(FAMILY##_agg_number_pairs_f64, NumberArgs, aggregation::THREADS, number_aggregates)             \
    AGGREGATION_KERNEL(FAMILY##_agg_count_unsuitable_4_f64, SuitabilityArgs, aggregation::THREADS, count_unsuitable<4>)\
    AGGREGATION_KERNEL(FAMILY##_agg_count_unsuitable_8_f64, SuitabilityArgs, aggregation::THREADS, count_unsuitable<8>)\
    AGGREGATION_KERNEL(FAMILY##_agg_sum_parts_f64, ScanArgs, aggregation::THREADS, sum_parts)                          \
    AGGREGATION_KERNEL(FAMILY##_agg_scan_parts_f64, ScanArgs, aggregation::THREADS, scan_parts)                        \
    AGGREGATION_KERNEL(FAMILY##_agg_scan_values_f64, ScanArgs, aggregation::THREADS, scan_values)                      \
    AGGREGATION_KERNEL(FAMILY##_agg_bound_row_lengths_f64, GalerkinArgs, aggregation::THREADS, bound_row_lengths)      \
    AGGREGATION_KERNEL(FAMILY##_agg_sum_couplings_f64, GalerkinArgs, aggregation::THREADS, sum_couplings)              \
    AGGREGATION_KERNEL(FAMILY##_agg_spread_rows_f64, SpreadArgs, aggregation::THREADS, spread_rows)                    \
    AGGREGATION_KERNEL(FAMILY##_agg_remove_null_unknowns_f64, SpreadArgs, inverse::MAX_UNKNOWNS, remove_null_unknowns) \
    INVERSE_KERNEL(FAMILY##_project_inverse_f64, NullVectorArgs, project_inverse)                                      \
    INVERSE_KERNEL(FAMILY##_invert_step_f64, InverseArgs, execute_step)                                                \
    AGGREGATION_IN_FORMATS(                                                                                            \
        FAMILY##_agg_compute_slice_lengths, ConvertArgs, aggregation::THREADS, compute_slice_lengths)                  \
    AGGREGATION_IN_FORMATS(FAMILY##_agg_convert_rows, ConvertArgs, aggregation::THREADS, convert_rows)                 \
    AGGREGATION_IN_FORMATS(FAMILY##_agg_descend, DescendArgs, aggregation::THREADS, descend)                           \
    AGGREGATION_IN_FORMATS(FAMILY##_agg_smooth, SmoothArgs, aggregation::THREADS, smooth)                              \
    AGGREGATION_IN_FORMATS(FAMILY##_agg_subtract, SubtractArgs, aggregation::THREADS, subtract)                        \
    AGGREGATION_IN_FORMATS(FAMILY##_agg_narrow_inverse, NarrowArgs, aggregation::THREADS, narrow_inverse)              \
    AGGREGATION_IN_FORMATS(FAMILY##_agg_solve_coarsest, CoarsestArgs, aggregation::THREADS, solve_coarsest)
