//! Setup of the levels on a device. The host enqueues kernels. It waits only for counts: the numbers of aggregates, of
//! couplings and of failed quality tests of each level.

use super::{COARSE_STEP_WEIGHT, Cycle, CycleLaunches, FINEST_STEP_WEIGHTS};
use crate::aggregation::{AggregationRules, KAPPA_FOR_REUSE};
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch::aggregation::{
    ConvertArgs, Couplings, GalerkinArgs, LANES_PER_ROW, Level, NarrowArgs, NumberArgs, PairArgs, SCAN_PART_VALUES,
    SLICE_ROWS, ScanArgs, SpreadArgs, SuitabilityArgs, begin_pass, bound_row_lengths, compute_slice_lengths,
    convert_rows, count_unsuitable_eight, count_unsuitable_four, invert, mark_first, match_eight, match_four,
    match_two, narrow_inverse, number_pairs, point_at_neighbour, project_inverse, remove_null_unknowns, scan_parts,
    scan_values, spread_rows, sum_couplings, sum_parts,
};
use crate::cuda::launch::{Address, MAX_UNKNOWNS, NullVectorArgs, PIVOTS};
use crate::cuda::layout::MemoryLayout;
use crate::direct::couplings::ALLOCATION_NAME;
use crate::error::{Error, Result, push};

/// Number of handshake rounds per pass of pairing. More rounds do not improve the pairs.
const HANDSHAKE_ROUNDS: usize = 4;
/// Coarsening stops if the next level would have more than this fraction of the rows of a level.
const MAX_ROW_FRACTION: f64 = 0.9;
/// Largest number of rows of a coarsest system that is solved with the dense inverse. The product with the inverse is a
/// single launch, whereas a further level needs several launches.
pub const COARSEST_ROWS: u32 = MAX_UNKNOWNS;
/// A coarse level with a number of rows in this range uses aggregates of up to eight nodes. They usually reduce such a
/// level to the size of the dense inverse, whereas aggregates of up to four nodes do not. One level instead of two also
/// needs fewer launches.
const LARGE_AGGREGATE_ROWS: std::ops::RangeInclusive<u32> = 3 * COARSEST_ROWS..=8 * COARSEST_ROWS;
/// Number of coarse levels, from the finest coarse level on, on which two cycles solve the system. One cycle solves it
/// if the level has too many couplings (`EXTRA_COUPLINGS`).
const TWO_CYCLE_LEVELS: usize = 4;
/// Two cycles solve the system of a level only if the level has at most c / 2 plus this number of couplings, where c is
/// the number of couplings of the previous level.
const EXTRA_COUPLINGS: usize = 1000;
/// Levels with at least this number of rows use one thread per row. Smaller levels are faster with several threads per
/// row.
const MIN_ONE_THREAD_ROWS: u32 = 1 << 16;
/// Largest factor by which kappa (`AggregationRules::kappa`), the bound of the quality of an aggregate, may be
/// increased.
const MAX_KAPPA_FACTOR: f64 = 4.0;

/// Workspace of the setup. It contains the matrix of the first level.
pub struct SetupWorkspace {
    matrices: [Couplings; 3],
    partner: Address,
    pointed_coupling: Address,
    rejected_couplings: Address,
    pair_numbers: Address,
    part_sums: Address,
    node_lists: Address,
    /// Address of the number of failed quality tests.
    failure_count: Address,
    rows: usize,
    entries: usize,
    memory: Memory,
}

/// Shape of a matrix: number of rows, and number of couplings for which memory is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixShape {
    pub rows: usize,
    pub entries: usize,
}

impl SetupWorkspace {
    pub fn new(stream: &Stream, MatrixShape { rows, entries }: MatrixShape) -> Result<Self> {
        if entries >= u32::MAX as usize {
            let message = format!("aggregation supports fewer than 2^32 entries on a device, got {entries}");
            return Err(Error::Unsupported(message));
        }
        let layout = |base| {
            let mut layout = MemoryLayout::new(base);
            let mut allocate_matrix = || Couplings {
                row_start: layout.reserve_bytes(4 * (rows + 1)),
                length: layout.reserve_bytes(4 * rows),
                col: layout.reserve_bytes(4 * entries),
                a: layout.reserve_bytes(8 * entries),
                row_sum: layout.reserve_bytes(8 * rows),
                diagonal: layout.reserve_bytes(8 * rows),
                rows: 0,
                unused: 0,
            };
            let matrices = [allocate_matrix(), allocate_matrix(), allocate_matrix()];
            let allocate_words = |layout: &mut MemoryLayout, count: usize| layout.reserve_bytes(4 * count);
            let (partner, pointed_coupling) = (allocate_words(&mut layout, rows), allocate_words(&mut layout, rows));
            let (pair_numbers, part_sums) = (
                allocate_words(&mut layout, rows + 1),
                allocate_words(&mut layout, rows.div_ceil(SCAN_PART_VALUES) + 1),
            );
            // Space for the node lists of two consecutive passes. A node list contains the rows of one aggregate.
            let node_lists = allocate_words(&mut layout, 6 * rows + 16);
            let (rejected_couplings, failure_count) = (layout.reserve_bytes(entries), layout.reserve_bytes(4));
            (
                matrices,
                [partner, pointed_coupling, pair_numbers, part_sums, node_lists, rejected_couplings, failure_count],
                layout.used_bytes,
            )
        };
        let memory = Memory::zeroed(stream.device(), stream, layout(0).2, ALLOCATION_NAME)?;
        let (
            matrices,
            [partner, pointed_coupling, pair_numbers, part_sums, node_lists, rejected_couplings, failure_count],
            _,
        ) = layout(memory.address);
        Ok(Self {
            matrices,
            partner,
            pointed_coupling,
            rejected_couplings,
            pair_numbers,
            part_sums,
            node_lists,
            failure_count,
            rows,
            entries,
            memory,
        })
    }

    /// Returns whether the workspace was allocated for this shape.
    pub fn has_shape(&self, MatrixShape { rows, entries }: MatrixShape) -> bool {
        (self.rows, self.entries) == (rows, entries)
    }

    /// Returns the matrix of the first level. The caller must fill it before calling `cycle`.
    pub fn first_matrix(&self) -> Couplings {
        Couplings { rows: self.rows as u32, ..self.matrices[0] }
    }

    pub fn bytes(&self) -> usize {
        self.memory.bytes
    }

    /// Replaces `count` values by their exclusive prefix sums; the total follows the last of them.
    fn scan(&self, stream: &Stream, values: Address, count: u32) -> Result<()> {
        let arguments = ScanArgs { values, part_sums: self.part_sums, count, unused: 0 };
        sum_parts(stream, &arguments)?;
        scan_parts(stream, &arguments)?;
        scan_values(stream, &arguments)
    }

    /// Builds the cycle of `scale` times A, which the caller has stored as the matrix of the first level
    /// (`first_matrix`). Reuses the memory of the previous cycle where it suffices. Also reuses its aggregates level by
    /// level, beginning with the finest level, until the aggregates of a level fail the quality test.
    pub fn cycle(
        &mut self,
        stream: &Stream,
        rules: &AggregationRules,
        (scale, is_single_precision): (f64, bool),
        (previous, memory_blocks): (Option<&CycleLaunches>, Vec<Option<Memory>>),
    ) -> Result<Cycle> {
        let launches = CycleLaunches { is_single_precision, levels: Vec::new(), inverse: 0, scale };
        let mut cycle = Cycle { launches, memory_blocks, reused_aggregate_count: 0 };
        // A level of equal size and precision keeps its memory, which still contains the previous aggregates.
        let mut previous_levels =
            previous.filter(|cycle| cycle.is_single_precision == is_single_precision).map(|cycle| &*cycle.levels);
        let (mut matrix, mut spare_matrices) = (self.first_matrix(), [self.matrices[1], self.matrices[2]]);
        let (mut nodes, mut previous_couplings, mut kappa) = ((0, 0), None, rules.kappa);
        loop {
            let couplings = self.append_level(stream, &mut cycle, matrix, (nodes, previous_couplings))?;
            previous_couplings = Some(couplings);
            let k = cycle.launches.levels.len() - 1;
            if matrix.rows <= COARSEST_ROWS {
                break;
            }
            let rules_of = |k: usize, kappa: f64| match k > 0 && LARGE_AGGREGATE_ROWS.contains(&matrix.rows) {
                true => AggregationRules { kappa, passes: rules.passes.max(3) },
                false => AggregationRules { kappa, ..*rules },
            };
            let reusable_aggregates = self.reusable_aggregates(stream, previous_levels, (k, matrix))?;
            cycle.reused_aggregate_count += reusable_aggregates.map_or(0, |(count, ..)| count as usize);
            previous_levels = previous_levels.filter(|_| reusable_aggregates.is_some());
            let aggregates = loop {
                if reusable_aggregates.is_some() {
                    break reusable_aggregates;
                }
                let aggregates =
                    self.aggregate(stream, &mut cycle, (matrix, spare_matrices[0]), &rules_of(k, kappa))?;
                let weaker_kappa = 2.0 * kappa;
                if f64::from(aggregates.0) <= MAX_ROW_FRACTION * f64::from(matrix.rows) {
                    break Some(aggregates);
                }
                // There were too few pairs. Pairing is repeated with a larger kappa.
                if weaker_kappa > MAX_KAPPA_FACTOR * rules.kappa {
                    break None;
                }
                kappa = weaker_kappa;
            };
            let Some((count, width, coarse_nodes)) = aggregates.filter(|aggregates| aggregates.0 > 0) else { break };
            let aggregate_of_row = cycle.memory_block(stream, 3 * k, 0)?.1;
            let level = &mut cycle.launches.levels[k];
            level.aggregate = aggregate_of_row;
            let coarse = Couplings { rows: count, ..spare_matrices[1] };
            self.galerkin(stream, (matrix, coarse), aggregate_of_row, (coarse_nodes, width))?;
            nodes = (coarse_nodes, width);
            (matrix, spare_matrices) = (coarse, [spare_matrices[0], Couplings { rows: 0, ..matrix }]);
        }
        let k = cycle.launches.levels.len() - 1;
        if cycle.launches.levels[k].aggregate == 0 && matrix.rows <= COARSEST_ROWS {
            self.invert(stream, &mut cycle, matrix)?;
        }
        Ok(cycle)
    }

    /// Tests whether the previous aggregates of level k pass the quality test for this matrix. If so, returns the
    /// number of aggregates, the number of entries per node list (a node list contains the rows of one aggregate), and
    /// the address of the node lists.
    fn reusable_aggregates(
        &self,
        stream: &Stream,
        previous_levels: Option<&[Level]>,
        (k, matrix): (usize, Couplings),
    ) -> Result<Option<(u32, u16, Address)>> {
        let Some([fine, coarse]) = previous_levels.and_then(|levels| levels.get(k..k + 2)) else { return Ok(None) };
        if fine.rows != matrix.rows || fine.aggregate == 0 {
            return Ok(None);
        }
        let Level { rows: count, width, nodes, .. } = *coarse;
        let (aggregate_of_row, failure_count) = (fine.aggregate, self.failure_count);
        stream.fill(failure_count, 0, 4)?;
        let arguments = SuitabilityArgs {
            c: matrix,
            kappa: KAPPA_FOR_REUSE,
            aggregate_of_row,
            nodes,
            failure_count,
            count,
            width: i32::from(width),
        };
        if width <= 4 {
            count_unsuitable_four(stream, &arguments)?
        } else {
            count_unsuitable_eight(stream, &arguments)?
        }
        let [failure_count] = fetch_counts(stream, failure_count)?;
        Ok((failure_count == 0).then_some((count, width, nodes)))
    }

    /// Appends a level for `matrix` to the cycle, and returns the number of couplings of `matrix`. Each row of `matrix`
    /// is an aggregate of rows of the previous level, which its node list contains. `nodes` is the address of the node
    /// lists, and `width` the number of entries per list. `previous_couplings` is the number of couplings of the
    /// previous level.
    fn append_level(
        &self,
        stream: &Stream,
        cycle: &mut Cycle,
        matrix: Couplings,
        ((nodes, width), previous_couplings): ((Address, u16), Option<usize>),
    ) -> Result<usize> {
        let (k, n) = (cycle.launches.levels.len(), matrix.rows as usize);
        let (lanes, slice) = if matrix.rows >= MIN_ONE_THREAD_ROWS { (1, SLICE_ROWS) } else { (LANES_PER_ROW, 1) };
        let (real_bytes, slices) = (if cycle.launches.is_single_precision { 4 } else { 8 }, n.div_ceil(slice as usize));
        let layout = |base| {
            let mut layout = MemoryLayout::new(base);
            let aggregate = layout.reserve_bytes(4 * n);
            let slice_start = layout.reserve_bytes(4 * (slices + 2));
            let [row_sum, jacobi_factor, r, first_iterate, z] =
                [0; 5].map(|_: u8| layout.reserve_bytes(real_bytes * n));
            // Two cycles run on coarse levels only, so the finest level has no c.
            let c = if k == 0 { 0 } else { layout.reserve_bytes(real_bytes * n) };
            let rows = n as u32;
            let level = Level {
                slice_start,
                row_sum,
                jacobi_factor,
                nodes,
                r,
                first_iterate,
                c,
                z,
                rows,
                width,
                lanes,
                ..Level::default()
            };
            (level, aggregate, layout.used_bytes)
        };
        let base = cycle.memory_block(stream, 3 * k, layout(0).2)?.1;
        let mut level = layout(base).0;
        let arguments = ConvertArgs {
            c: matrix,
            slice_start: level.slice_start,
            row_sum: level.row_sum,
            jacobi_factor: level.jacobi_factor,
            slice,
            step_weight: if k == 0 { FINEST_STEP_WEIGHTS[0] } else { COARSE_STEP_WEIGHT },
            ..ConvertArgs::default()
        };
        let totals_address = level.slice_start + 4 * slices as u64;
        stream.fill(totals_address, 0, 8)?;
        compute_slice_lengths(stream, cycle.launches.is_single_precision, &arguments)?;
        self.scan(stream, level.slice_start, slices as u32)?;
        let [entries, couplings] = fetch_counts(stream, totals_address)?.map(|count: u32| count as usize);
        level.entries = cycle.memory_block(stream, 3 * k + 1, 2 * real_bytes * entries)?.1;
        convert_rows(stream, cycle.launches.is_single_precision, &ConvertArgs { entries: level.entries, ..arguments })?;
        level.uses_two_cycles = u16::from(
            k <= TWO_CYCLE_LEVELS
                && previous_couplings
                    .is_some_and(|previous_couplings| couplings <= previous_couplings / 2 + EXTRA_COUPLINGS),
        );
        push(&mut cycle.launches.levels, level, ALLOCATION_NAME)?;
        Ok(couplings)
    }

    /// Computes aggregates of the rows of a matrix; `spare_matrix` is workspace for the matrices of the later passes.
    /// Returns the number of aggregates, the number of entries per node list, and the address of the node lists. The
    /// aggregate of each row is stored at the beginning of the level's memory.
    fn aggregate(
        &self,
        stream: &Stream,
        cycle: &mut Cycle,
        (matrix, spare_matrix): (Couplings, Couplings),
        rules: &AggregationRules,
    ) -> Result<(u32, u16, Address)> {
        let k = cycle.launches.levels.len() - 1;
        let aggregate_of_row = cycle.memory_block(stream, 3 * k, 0)?.1;
        let (mut pass_matrix, mut width, mut nodes) = (matrix, 1, 0);
        for pass in 0..rules.passes {
            let is_first = pass == 0;
            let arguments = PairArgs {
                c: pass_matrix,
                kappa: rules.kappa,
                partner: self.partner,
                pointed_coupling: self.pointed_coupling,
                rejected: self.rejected_couplings,
                aggregate_of_row: if is_first { aggregate_of_row } else { 0 },
                fine: matrix,
                nodes,
                width,
                unused: 0,
            };
            begin_pass(stream, &arguments)?;
            for _ in 0..HANDSHAKE_ROUNDS {
                point_at_neighbour(stream, &arguments)?;
                match width {
                    1 => match_two(stream, &arguments)?,
                    2 => match_four(stream, &arguments)?,
                    _ => match_eight(stream, &arguments)?,
                }
            }
            let number_args = NumberArgs {
                partner: self.partner,
                aggregate_number: self.pair_numbers,
                aggregate_of_row,
                nodes,
                joined_nodes: 0,
                rows: pass_matrix.rows,
                width,
            };
            mark_first(stream, &number_args)?;
            self.scan(stream, self.pair_numbers, pass_matrix.rows)?;
            let [count] = fetch_counts(stream, self.pair_numbers + 4 * u64::from(pass_matrix.rows))?;
            width *= 2;
            let is_last = pass + 1 == rules.passes;
            let joined_nodes = match is_last {
                true => cycle.memory_block(stream, 3 * k + 2, 4 * count as usize * width as usize)?.1,
                // Two buffers alternate, because a pass reads the lists of the previous pass while it writes its own.
                false => self.node_lists + if pass % 2 == 0 { 0 } else { 8 * (u64::from(matrix.rows) + 2) },
            };
            number_pairs(stream, &NumberArgs { joined_nodes, ..number_args })?;
            nodes = joined_nodes;
            if count == 0 || is_last {
                return Ok((count, width as u16, nodes));
            }
            let pair_matrix = Couplings { rows: count, ..spare_matrix };
            self.galerkin(stream, (matrix, pair_matrix), aggregate_of_row, (nodes, width as u16))?;
            pass_matrix = pair_matrix;
        }
        Ok((pass_matrix.rows, width as u16, nodes))
    }

    /// Computes the coarse matrix P^T A P, whose rows are the aggregates.
    fn galerkin(
        &self,
        stream: &Stream,
        (fine, coarse): (Couplings, Couplings),
        aggregate_of_row: Address,
        (nodes, width): (Address, u16),
    ) -> Result<()> {
        let arguments = GalerkinArgs { fine, coarse, aggregate_of_row, nodes, width: i32::from(width), unused: 0 };
        bound_row_lengths(stream, &arguments)?;
        self.scan(stream, coarse.row_start, coarse.rows)?;
        sum_couplings(stream, &arguments)
    }

    /// Computes the inverse of the coarsest matrix in the precision of the cycle, or its pseudoinverse if the matrix
    /// has singular components (kernels/common/inverse.cuh).
    fn invert(&self, stream: &Stream, cycle: &mut Cycle, matrix: Couplings) -> Result<()> {
        let (k, n) = (cycle.launches.levels.len(), matrix.rows as usize);
        let real_bytes = if cycle.launches.is_single_precision { 4 } else { 8 };
        let layout = |base| {
            let mut layout = MemoryLayout::new(base);
            let buffers = [0; 2].map(|_: u8| layout.reserve_bytes(8 * n * n));
            let (pivots, null_vector_of) =
                (layout.reserve_bytes(16 * (PIVOTS * PIVOTS) as usize), layout.reserve_bytes(4 * n));
            (buffers, [pivots, null_vector_of], layout.reserve_bytes(real_bytes * n * n), layout.used_bytes)
        };
        let base = cycle.memory_block(stream, 3 * k, layout(0).3)?.1;
        let (mut buffers, [pivots, null_vector_of], inverse, _) = layout(base);
        cycle.launches.inverse = inverse;
        stream.fill(buffers[0], 0, 8 * n * n)?;
        let spread_args = SpreadArgs { c: matrix, dense: buffers[0], null_vector_of };
        spread_rows(stream, &spread_args)?;
        remove_null_unknowns(stream, &spread_args)?;
        invert(stream, (&mut buffers, matrix.diagonal, pivots, n))?;
        let [source, target] = buffers;
        let null_vector_args =
            NullVectorArgs { source, target, null_vector_of, n: n as i32, ..NullVectorArgs::default() };
        project_inverse(stream, &null_vector_args)?;
        project_inverse(stream, &NullVectorArgs { source: target, target: source, ..null_vector_args })?;
        let arguments = NarrowArgs { source, target: inverse, count: (n * n) as u32, unused: 0 };
        narrow_inverse(stream, cycle.launches.is_single_precision, &arguments)
    }
}

impl Cycle {
    /// Returns size and address of memory block k. Allocates it again if it has fewer than `bytes` bytes.
    fn memory_block(&mut self, stream: &Stream, k: usize, bytes: usize) -> Result<(usize, Address)> {
        while self.memory_blocks.len() <= k {
            push(&mut self.memory_blocks, None, ALLOCATION_NAME)?;
        }
        let block = &mut self.memory_blocks[k];
        if block.as_ref().is_none_or(|memory| memory.bytes < bytes) {
            // The previous block is freed before the new block is allocated.
            *block = None;
            // The block is larger by one sixteenth, since the next matrix may have slightly more rows on this level.
            *block = Some(Memory::zeroed(stream.device(), stream, bytes + bytes / 16 + 256, ALLOCATION_NAME)?);
        }
        Ok(block.as_ref().map_or((0, 0), |memory| (memory.bytes, memory.address)))
    }
}

/// Copies N counts to the host and waits for the copy.
fn fetch_counts<const N: usize>(stream: &Stream, address: Address) -> Result<[u32; N]> {
    let mut values = [0; N];
    stream.fetch(&mut values, address)?;
    stream.wait()?;
    Ok(values)
}
