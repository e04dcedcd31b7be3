//! Setup of the levels on a device. The host enqueues kernels. It waits only for counts: the numbers of aggregates, of
//! couplings and of failed quality tests of each level.

use super::{Cycle, Launched};
use crate::aggregation::{KAPPA_FOR_REUSE, Rules};
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch::aggregation::{
    ConvertArgs, Couplings, GalerkinArgs, LANES, Level, NarrowArgs, NumberArgs, PART, PairArgs, SLICE, ScanArgs,
    SpreadArgs, SuitabilityArgs, begin_pass, bound_row_lengths, compute_slice_lengths, convert_rows,
    count_unsuitable_eight, count_unsuitable_four, invert, mark_first, match_eight, match_four, match_two,
    narrow_inverse, number_pairs, point_at_neighbour, project_inverse, remove_null_unknowns, scan_parts, scan_values,
    spread_rows, sum_couplings, sum_parts,
};
use crate::cuda::launch::{Address, MOST_UNKNOWNS, NullVectorArgs, PIVOTS};
use crate::cuda::layout::MemoryLayout;
use crate::direct::couplings::WHAT;
use crate::error::{Error, Result, push};

/// Number of handshake rounds per pass of pairing. More rounds do not improve the pairs.
const ROUNDS: usize = 4;
/// Coarsening stops if the next level would have more than this fraction of the rows of a level.
const MAX_ROW_FRACTION: f64 = 0.9;
/// Largest number of rows of a coarsest system that is solved with the dense inverse. The product with the inverse is a
/// single launch, whereas a further level needs several launches.
pub const COARSEST: u32 = MOST_UNKNOWNS;
/// A coarse level with a number of rows in this range uses aggregates of up to eight nodes. They usually reduce such a
/// level to the size of the dense inverse, whereas aggregates of up to four nodes do not. One level instead of two also
/// needs fewer launches.
const LARGE_AGGREGATES: std::ops::RangeInclusive<u32> = 3 * COARSEST..=8 * COARSEST;
/// On this many coarse levels, from the finest on, two cycles solve the system, unless the level has too many
/// couplings.
const TWO_CYCLE_LEVELS: usize = 4;
/// Two cycles solve a level only if its number of couplings is at most c / 2 plus this constant, where c is the number
/// of couplings of the previous level.
const EXTRA_COUPLINGS: usize = 1000;
/// Levels with at least this number of rows use one thread per row. Smaller levels are faster with several threads per
/// row.
const ONE_THREAD_ROWS: u32 = 1 << 16;
/// Largest factor by which kappa (`Rules::kappa`), the bound of the quality of an aggregate, may be increased.
const MAX_KAPPA_FACTOR: f64 = 4.0;

/// Workspace of the setup. It contains the matrix of the first level.
pub struct SetupWorkspace {
    matrices: [Couplings; 3],
    partner: Address,
    pointed_coupling: Address,
    rejected: Address,
    number: Address,
    parts: Address,
    nodes: Address,
    /// Address of one number: an upper bound of the eigenvalues, or the number of failed quality tests.
    bound: Address,
    rows: usize,
    entries: usize,
    memory: Memory,
}

/// Shape of a matrix: number of rows, and number of couplings for which memory is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub rows: usize,
    pub entries: usize,
}

impl SetupWorkspace {
    pub fn new(stream: &Stream, Shape { rows, entries }: Shape) -> Result<Self> {
        if entries >= u32::MAX as usize {
            let message = format!("aggregation supports fewer than 2^32 couplings on a device, got {entries}");
            return Err(Error::Unsupported(message));
        }
        let layout = |base| {
            let mut layout = MemoryLayout::new(base);
            let mut matrix = || Couplings {
                first: layout.bytes(4 * (rows + 1)),
                length: layout.bytes(4 * rows),
                col: layout.bytes(4 * entries),
                a: layout.bytes(8 * entries),
                row_sum: layout.bytes(8 * rows),
                diagonal: layout.bytes(8 * rows),
                rows: 0,
                unused: 0,
            };
            let matrices = [matrix(), matrix(), matrix()];
            let words = |layout: &mut MemoryLayout, count: usize| layout.bytes(4 * count);
            let (partner, pointed_coupling) = (words(&mut layout, rows), words(&mut layout, rows));
            let (number, parts) = (words(&mut layout, rows + 1), words(&mut layout, rows.div_ceil(PART) + 1));
            // Space for the node lists of two consecutive passes.
            let nodes = words(&mut layout, 6 * rows + 16);
            let (rejected, bound) = (layout.bytes(entries), layout.bytes(8));
            (matrices, [partner, pointed_coupling, number, parts, nodes, rejected, bound], layout.used)
        };
        let memory = Memory::zeroed(stream.device(), stream, layout(0).2, WHAT)?;
        let (matrices, [partner, pointed_coupling, number, parts, nodes, rejected, bound], _) = layout(memory.address);
        Ok(Self { matrices, partner, pointed_coupling, rejected, number, parts, nodes, bound, rows, entries, memory })
    }

    /// Returns whether the workspace was allocated for this shape.
    pub fn fits(&self, Shape { rows, entries }: Shape) -> bool {
        (self.rows, self.entries) == (rows, entries)
    }

    /// Returns the matrix of the first level. The caller must fill it before calling `cycle`.
    pub fn first(&self) -> Couplings {
        Couplings { rows: self.rows as u32, ..self.matrices[0] }
    }

    pub fn bytes(&self) -> usize {
        self.memory.bytes
    }

    /// Replaces `count` values by their exclusive prefix sums; the total follows the last of them.
    fn scan(&self, stream: &Stream, values: Address, count: u32) -> Result<()> {
        let arguments = ScanArgs { values, parts: self.parts, count, unused: 0 };
        sum_parts(stream, &arguments)?;
        scan_parts(stream, &arguments)?;
        scan_values(stream, &arguments)
    }

    /// Builds the cycle of `scale` times A, which the caller has stored as the matrix of the first level (`first`).
    /// Reuses the memory of the previous cycle where it suffices. Also reuses its aggregates level by level, beginning
    /// with the finest level, until the aggregates of a level fail the quality test.
    pub fn cycle(
        &mut self,
        stream: &Stream,
        rules: &Rules,
        (scale, single): (f64, bool),
        (last, memory): (Option<&Launched>, Vec<Option<Memory>>),
    ) -> Result<Cycle> {
        let launched = Launched { single, levels: Vec::new(), inverse: 0, scale };
        let mut cycle = Cycle { launched, memory, reused_aggregates: 0 };
        // A level of equal size and precision keeps its memory, which still contains the previous aggregates.
        let mut last = last.filter(|last| last.single == single).map(|last| &*last.levels);
        let (mut matrix, mut spare) = (self.first(), [self.matrices[1], self.matrices[2]]);
        let (mut nodes, mut before, mut kappa) = ((0, 0), None, rules.kappa);
        loop {
            let couplings = self.append_level(stream, &mut cycle, matrix, (nodes, before))?;
            before = Some(couplings);
            let k = cycle.launched.levels.len() - 1;
            if matrix.rows <= COARSEST {
                break;
            }
            let rules_of = |k: usize, kappa: f64| match k > 0 && LARGE_AGGREGATES.contains(&matrix.rows) {
                true => Rules { kappa, passes: rules.passes.max(3) },
                false => Rules { kappa, ..*rules },
            };
            let reusable = self.reusable_aggregates(stream, last, (k, matrix))?;
            cycle.reused_aggregates += reusable.map_or(0, |(count, ..)| count as usize);
            last = last.filter(|_| reusable.is_some());
            let made = loop {
                if reusable.is_some() {
                    break reusable;
                }
                let made = self.aggregate(stream, &mut cycle, (matrix, spare[0]), &rules_of(k, kappa))?;
                let weaker = 2.0 * kappa;
                if f64::from(made.0) <= MAX_ROW_FRACTION * f64::from(matrix.rows) {
                    break Some(made);
                }
                // There were too few pairs. Pairing is repeated with a larger kappa.
                if weaker > MAX_KAPPA_FACTOR * rules.kappa {
                    break None;
                }
                kappa = weaker;
            };
            let Some((count, width, of_nodes)) = made.filter(|made| made.0 > 0) else { break };
            let of = cycle.room(stream, 3 * k, 0)?.1;
            let level = &mut cycle.launched.levels[k];
            level.aggregate = of;
            let coarse = Couplings { rows: count, ..spare[1] };
            self.galerkin(stream, (matrix, coarse), of, (of_nodes, width))?;
            nodes = (of_nodes, width);
            (matrix, spare) = (coarse, [spare[0], Couplings { rows: 0, ..matrix }]);
        }
        let k = cycle.launched.levels.len() - 1;
        if cycle.launched.levels[k].aggregate == 0 && matrix.rows <= COARSEST {
            self.invert(stream, &mut cycle, matrix)?;
        }
        Ok(cycle)
    }

    /// Tests whether the previous aggregates of level k pass the quality test for this matrix. If so, returns their
    /// number, the width of their node lists, and the address of these lists.
    fn reusable_aggregates(
        &self,
        stream: &Stream,
        last: Option<&[Level]>,
        (k, matrix): (usize, Couplings),
    ) -> Result<Option<(u32, u16, Address)>> {
        let Some([fine, coarse]) = last.and_then(|levels| levels.get(k..k + 2)) else { return Ok(None) };
        if fine.rows != matrix.rows || fine.aggregate == 0 {
            return Ok(None);
        }
        let Level { rows: count, width, nodes, .. } = *coarse;
        let (of, failed) = (fine.aggregate, self.bound);
        stream.fill(failed, 0, 4)?;
        let arguments =
            SuitabilityArgs { c: matrix, kappa: KAPPA_FOR_REUSE, of, nodes, failed, count, width: i32::from(width) };
        if width <= 4 {
            count_unsuitable_four(stream, &arguments)?
        } else {
            count_unsuitable_eight(stream, &arguments)?
        }
        let [failed] = fetched(stream, failed)?;
        Ok((failed == 0).then_some((count, width, nodes)))
    }

    /// Appends a level for this matrix to the cycle. Returns the number of couplings. `nodes` and `width` are the node
    /// lists of its rows on the previous level and their width, `before` is the number of couplings of that level.
    fn append_level(
        &self,
        stream: &Stream,
        cycle: &mut Cycle,
        matrix: Couplings,
        ((nodes, width), before): ((Address, u16), Option<usize>),
    ) -> Result<usize> {
        let (k, n) = (cycle.launched.levels.len(), matrix.rows as usize);
        let (lanes, slice) = if matrix.rows >= ONE_THREAD_ROWS { (1, SLICE) } else { (LANES, 1) };
        let (real, slices) = (if cycle.launched.single { 4 } else { 8 }, n.div_ceil(slice as usize));
        let layout = |base| {
            let mut layout = MemoryLayout::new(base);
            let aggregate = layout.bytes(4 * n);
            let first = layout.bytes(4 * (slices + 2));
            let [row_sum, step, r, start, c, z] = [0; 6].map(|_: u8| layout.bytes(real * n));
            let rows = n as u32;
            let level = Level { first, row_sum, step, nodes, r, start, c, z, rows, width, lanes, ..Level::default() };
            (level, aggregate, layout.used)
        };
        let base = cycle.room(stream, 3 * k, layout(0).2)?.1;
        let mut level = layout(base).0;
        let arguments = ConvertArgs {
            c: matrix,
            first: level.first,
            row_sum: level.row_sum,
            step: level.step,
            bound: self.bound,
            slice,
            ..ConvertArgs::default()
        };
        let of_all = level.first + 4 * slices as u64;
        stream.fill(self.bound, 0, 8)?;
        stream.fill(of_all, 0, 8)?;
        compute_slice_lengths(stream, cycle.launched.single, &arguments)?;
        self.scan(stream, level.first, slices as u32)?;
        let [entries, couplings] = fetched(stream, of_all)?.map(|count: u32| count as usize);
        level.entries = cycle.room(stream, 3 * k + 1, 2 * real * entries)?.1;
        convert_rows(stream, cycle.launched.single, &ConvertArgs { entries: level.entries, ..arguments })?;
        level.uses_two_cycles =
            u16::from(k <= TWO_CYCLE_LEVELS && before.is_some_and(|before| couplings <= before / 2 + EXTRA_COUPLINGS));
        push(&mut cycle.launched.levels, level, WHAT)?;
        Ok(couplings)
    }

    /// Computes aggregates of the rows of a matrix; `spare` is workspace for the matrices of the later passes. Returns
    /// the number of aggregates, the width of their node lists, and the address of these lists. The aggregate of each
    /// row is stored at the beginning of the level's memory.
    fn aggregate(
        &self,
        stream: &Stream,
        cycle: &mut Cycle,
        (matrix, spare): (Couplings, Couplings),
        rules: &Rules,
    ) -> Result<(u32, u16, Address)> {
        let k = cycle.launched.levels.len() - 1;
        let of = cycle.room(stream, 3 * k, 0)?.1;
        let (mut rows, mut width, mut nodes) = (matrix, 1, 0);
        for pass in 0..rules.passes {
            let is_first = pass == 0;
            let arguments = PairArgs {
                c: rows,
                kappa: rules.kappa,
                partner: self.partner,
                pointed_coupling: self.pointed_coupling,
                rejected: self.rejected,
                of: if is_first { of } else { 0 },
                fine: matrix,
                nodes,
                width,
                unused: 0,
            };
            begin_pass(stream, &arguments)?;
            for _ in 0..ROUNDS {
                point_at_neighbour(stream, &arguments)?;
                match width {
                    1 => match_two(stream, &arguments)?,
                    2 => match_four(stream, &arguments)?,
                    _ => match_eight(stream, &arguments)?,
                }
            }
            let numbers =
                NumberArgs { partner: self.partner, number: self.number, of, nodes, joined: 0, rows: rows.rows, width };
            mark_first(stream, &numbers)?;
            self.scan(stream, self.number, rows.rows)?;
            let [count] = fetched(stream, self.number + 4 * u64::from(rows.rows))?;
            width *= 2;
            let is_last = pass + 1 == rules.passes;
            let joined = match is_last {
                true => cycle.room(stream, 3 * k + 2, 4 * count as usize * width as usize)?.1,
                // Two buffers alternate, because a pass reads the lists of the previous pass while it writes its own.
                false => self.nodes + if pass % 2 == 0 { 0 } else { 8 * (u64::from(matrix.rows) + 2) },
            };
            number_pairs(stream, &NumberArgs { joined, ..numbers })?;
            nodes = joined;
            if count == 0 || is_last {
                return Ok((count, width as u16, nodes));
            }
            let pairs = Couplings { rows: count, ..spare };
            self.galerkin(stream, (matrix, pairs), of, (nodes, width as u16))?;
            rows = pairs;
        }
        Ok((rows.rows, width as u16, nodes))
    }

    /// Computes the coarse matrix P^T A P, whose rows are the aggregates.
    fn galerkin(
        &self,
        stream: &Stream,
        (fine, coarse): (Couplings, Couplings),
        of: Address,
        (nodes, width): (Address, u16),
    ) -> Result<()> {
        let arguments = GalerkinArgs { fine, coarse, of, nodes, width: i32::from(width), unused: 0 };
        bound_row_lengths(stream, &arguments)?;
        self.scan(stream, coarse.first, coarse.rows)?;
        sum_couplings(stream, &arguments)
    }

    /// Computes the inverse of the coarsest matrix in the precision of the cycle, or its pseudoinverse if the matrix
    /// has singular components (kernels/common/inverse.cuh).
    fn invert(&self, stream: &Stream, cycle: &mut Cycle, matrix: Couplings) -> Result<()> {
        let (k, n) = (cycle.launched.levels.len(), matrix.rows as usize);
        let real = if cycle.launched.single { 4 } else { 8 };
        let layout = |base| {
            let mut layout = MemoryLayout::new(base);
            let buffers = [0; 2].map(|_: u8| layout.bytes(8 * n * n));
            let (pivots, null_of) = (layout.bytes(16 * (PIVOTS * PIVOTS) as usize), layout.bytes(4 * n));
            (buffers, [pivots, null_of], layout.bytes(real * n * n), layout.used)
        };
        let base = cycle.room(stream, 3 * k, layout(0).3)?.1;
        let (mut buffers, [pivots, null_of], inverse, _) = layout(base);
        cycle.launched.inverse = inverse;
        stream.fill(buffers[0], 0, 8 * n * n)?;
        let square = SpreadArgs { c: matrix, to: buffers[0], null_of };
        spread_rows(stream, &square)?;
        remove_null_unknowns(stream, &square)?;
        invert(stream, (&mut buffers, matrix.diagonal, pivots, n))?;
        let [from, to] = buffers;
        let means = NullVectorArgs { from, to, null_of, n: n as i32, ..NullVectorArgs::default() };
        project_inverse(stream, &means)?;
        project_inverse(stream, &NullVectorArgs { from: to, to: from, ..means })?;
        let arguments = NarrowArgs { from, to: inverse, count: (n * n) as u32, unused: 0 };
        narrow_inverse(stream, cycle.launched.single, &arguments)
    }
}

impl Cycle {
    /// Returns size and address of memory block k. Allocates it again if it has fewer than `bytes` bytes.
    fn room(&mut self, stream: &Stream, k: usize, bytes: usize) -> Result<(usize, Address)> {
        while self.memory.len() <= k {
            push(&mut self.memory, None, WHAT)?;
        }
        let place = &mut self.memory[k];
        if place.as_ref().is_none_or(|memory| memory.bytes < bytes) {
            // The previous block is freed before the new block is allocated.
            *place = None;
            // The block is larger by one sixteenth, since the next matrix may have slightly more rows on this level.
            *place = Some(Memory::zeroed(stream.device(), stream, bytes + bytes / 16 + 256, WHAT)?);
        }
        Ok(place.as_ref().map_or((0, 0), |memory| (memory.bytes, memory.address)))
    }
}

/// Copies N counts to the host and waits for the copy.
fn fetched<const N: usize>(stream: &Stream, from: Address) -> Result<[u32; N]> {
    let mut values = [0; N];
    stream.fetch(&mut values, from)?;
    stream.wait()?;
    Ok(values)
}
