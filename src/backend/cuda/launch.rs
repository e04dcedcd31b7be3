//! The kernels: their argument structures as in kernels/*.cu, and one function each that launches it. Argument order and
//! launch shapes are fixed here and nowhere else; lengths were fixed where the arrays were laid out (`packed.rs`).

use super::driver::{Device, Stream, Together};
use crate::backend::storage::Storage;
use crate::error::Result;

/// An address in device memory; 0: none.
pub type Address = u64;

/// Threads across and down a tile, in a block, and blocks at most: kernels/common.cuh.
pub const TILE: (u32, u32) = (32, 8);
const THREADS: u32 = TILE.0 * TILE.1;
/// Places across and down a patch: kernels/common.cuh.
const PATCH: u32 = 8;
pub const MOST_BLOCKS: u32 = 528;
/// Entries of the ring of iterations.
pub const RING: usize = 1024;
/// Rows of the remainder's inverse that a block multiplies; threads of a sweep's block.
const PRODUCT_ROWS: u32 = THREADS / 32;
/// Threads of a tile of blocks, or of a box of ghost cells: kernels/block_smoother.cu.
const TILE_THREADS: u32 = 64;
/// Blocks of a product with the dense inverse, its threads, its shared memory (four steps of eight columns of the inverse and
/// right-hand sides, 40 results a thread that multiplies), and blocks of threads that share what they fetch.
const COLUMNS: u32 = 32;
const DENSE_THREADS: u32 = 384;
const DENSE_BYTES: u32 = 8 * (4 * (8 * 512 + 8 * COLUMNS) + 40 * 256);
const CLUSTER: u32 = 2;
pub const SWEEP_THREADS: u32 = 320;
/// Threads of kernels whose blocks meet; bytes of shared memory at most for what the first cluster keeps there, beside 30 kB that
/// kernels name themselves: of devices with 227 kB, and of those with 99.
pub const CREW_THREADS: u32 = 512;
pub const CREW_BYTES: [u32; 2] = [200_704, 69_632];
/// Grids at most that one kernel goes over.
pub const MOST_GRIDS: usize = 10;
/// Nodes of a line of the remainder at most, and threads of a block that takes one: kernels/remainder.cu.
pub const LINE: usize = 32;
const LINE_THREADS: u32 = (LINE * LINE) as u32;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Geometry {
    pub nx: i32,
    pub ny: i32,
    pub cx: i32,
    pub cy: i32,
    pub shift_x: i32,
    pub shift_y: i32,
    pub stride: i32,
    pub block: i32,
    pub plane: i64,
    /// A byte for each tile: 1 where one row of each colour stands for those of all its places, and of those around it. 0: not used.
    pub uniform: Address,
}

impl Geometry {
    /// Tiles, and patches of kernels/uniform.cu.
    pub fn tiles_and_patches(&self) -> (usize, usize) {
        let of = |columns: u32, rows: u32| {
            (self.cx as u32).div_ceil(columns) as usize * (self.cy as u32).div_ceil(rows) as usize
        };
        (of(TILE.0, TILE.1), of(PATCH, PATCH))
    }

    /// Blocks of a launch over the compute area.
    pub fn blocks(&self) -> u32 {
        tiles(self.cx as usize, self.cy as usize)
    }

    /// Tiles of so many rows.
    fn big_tiles(&self, rows: i32) -> usize {
        (self.cx as usize).div_ceil(TILE.0 as usize) * (self.cy as usize).div_ceil(rows as usize)
    }

    /// Rows of a tile where what lies around it is computed twice (kernels/fused.cu): those with which most blocks are at work
    /// most of the time. Where each has many tiles, the first are as good as others.
    pub fn big_rows(&self) -> i32 {
        let rounds = |rows| self.big_tiles(rows).div_ceil(MOST_BLOCKS as usize);
        let time = |rows: i32| rounds(rows) * (rows as usize + 2);
        let best = BIG_ROWS.into_iter().min_by_key(|rows| time(*rows)).unwrap_or(BIG_ROWS[0]);
        if rounds(BIG_ROWS[0]) > 2 { BIG_ROWS[0] } else { best }
    }

    /// Of the pass before it, which begins where that has ended: the same, where a block has few tiles of them.
    pub fn big_rows_down(&self) -> i32 {
        let rows = self.big_rows();
        let few = self.big_tiles(rows) <= 8 * MOST_BLOCKS as usize;
        if few { rows } else { TILE.1 as i32 }
    }

    /// Blocks that go over tiles of so many rows.
    pub fn first_blocks(&self, rows: i32) -> u32 {
        self.big_tiles(rows).clamp(1, MOST_BLOCKS as usize) as u32
    }
}

/// What there is, the first on large grids.
const BIG_ROWS: [i32; 3] = [16, 8, 24];

/// Blocks of a launch over nx x ny values.
pub fn tiles(nx: usize, ny: usize) -> u32 {
    let tiles = nx.div_ceil(TILE.0 as usize) * ny.div_ceil(TILE.1 as usize);
    tiles.clamp(1, MOST_BLOCKS as usize) as u32
}

/// One grid as the factorization works on it, in f64.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Grid {
    pub g: Geometry,
    pub h: Address,
    pub s: Address,
    pub d: Address,
    pub excess: Address,
    pub corners: Address,
    pub far: Address,
    pub short_h: Address,
    pub short_s: Address,
    pub short_d: Address,
    pub kept_excess: Address,
    pub kept_corners: Address,
    pub kept_black: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    pub g: Geometry,
    pub to: Address,
    pub from: Address,
    pub nx: i32,
    pub ny: i32,
}

/// One grid as sweeps and cycles work on it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Level {
    pub g: Geometry,
    pub h: Address,
    pub s: Address,
    pub d: Address,
    pub z: Address,
    pub y: Address,
    pub excess: Address,
    pub corners: Address,
    pub black: Address,
    pub r: Address,
    pub direction: Address,
    pub q: Address,
    pub u: Address,
    pub kept: Kept,
}

/// A step of the preconditioner; kinds and flags are those of kernels/common.cuh.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Op {
    pub kind: i32,
    pub grid: i32,
    pub flags: i32,
    pub partial: i32,
    pub alpha: f64,
    pub beta: f64,
}

/// `Op::kind`.
pub mod kind {
    pub const DESCEND_FIRST: i32 = 0;
    pub const DESCEND: i32 = 1;
    pub const REMAINDER: i32 = 2;
    pub const ASCEND: i32 = 3;
    pub const MULTIPLY_INNER: i32 = 4;
    pub const DIRECT_INNER: i32 = 5;
    pub const ADVANCE_INNER: i32 = 6;
    pub const ADVANCE_FIRST: i32 = 7;
    /// The unfused way up the first grid: launched alone.
    pub const ASCEND_FIRST: i32 = 9;
}

/// `Op::flags`.
pub mod flag {
    pub const KEEP: i32 = 1;
    pub const KEEP_TOO: i32 = 2;
    pub const RHO: i32 = 4;
    pub const TURN: i32 = 8;
    pub const DIRECTED: i32 = 16;
    pub const WITH_BETA: i32 = 32;
    pub const FIRST_STEP: i32 = 64;
    pub const TAKE: i32 = 128;
    pub const STORE: i32 = 256;
    pub const GO_ON: i32 = 512;
    pub const ADVANCED: i32 = 1024;
    pub const CREW: i32 = 2048;
    pub const CREW_MEETS: i32 = 4096;
    pub const UNMET: i32 = 8192;
    pub const PART: i32 = 16384;
    pub const IN_CREW: i32 = 65536;
    pub const ENTERS: i32 = 131_072;
    pub const ALONE: i32 = 262_144;
    /// Not for kernels: `StepArgs::beside`.
    pub const BESIDE: i32 = 524_288;
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Matrix {
    pub center: Address,
    pub straight: Address,
    pub red: Address,
    pub black: Address,
}

/// What the first look at the matrix and the eliminations find.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Findings {
    pub not_finite: u64,
    pub bad_center: u64,
    pub positive: u64,
    pub center_max: u64,
    pub center_min: u64,
    pub coupling_max: u64,
    pub uncoupled: u64,
    pub outward: [u64; 4],
    pub first_outward: u64,
    pub excess: u64,
    pub bad_pivot: u64,
    pub components: u64,
    pub regular_components: u64,
    pub remainder_inverse: u64,
    pub remainder_pivot: u64,
    pub uniform: [u64; MOST_LEFT],
    pub coupling: [u64; MOST_LEFT],
}

impl Findings {
    /// Before anything was seen.
    pub const NONE: Self = Self {
        not_finite: u64::MAX,
        bad_center: u64::MAX,
        positive: 0,
        center_max: 0,
        center_min: u64::MAX,
        coupling_max: 0,
        uncoupled: 0,
        outward: [0; 4],
        first_outward: u64::MAX,
        excess: 0,
        bad_pivot: u64::MAX,
        components: 0,
        regular_components: 0,
        remainder_inverse: 0,
        remainder_pivot: 0,
        uniform: [0; MOST_LEFT],
        coupling: [0; MOST_LEFT],
    };

    /// Before a factorization of the matrix that was looked at.
    pub fn forget_factorization(&mut self) {
        self.bad_pivot = Self::NONE.bad_pivot;
        (self.remainder_inverse, self.remainder_pivot) = (0, 0);
        (self.uniform, self.coupling) = (Self::NONE.uniform, Self::NONE.coupling);
    }
}

/// Grids whose remains are looked at for weak couplings, and their tiles for rows that are the same.
pub const MOST_LEFT: usize = 16;

/// One entry of the ring.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    pub norm: f64,
    pub alpha: f64,
    pub beta: f64,
}

/// The scalars of a solve, as they lie on the device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Scalars {
    pub per_unit: f64,
    pub threshold: f64,
    pub vanishing: f64,
    pub iteration: i64,
    pub max_iter: i64,
    pub pause_at: i64,
    pub done: i64,
    pub preconditioned: i32,
    pub code: i32,
    pub rho: f64,
    pub sigma: f64,
    pub alpha: f64,
    pub beta: f64,
    pub norm2: f64,
    pub norm: f64,
    pub met: i64,
    pub ring_used: i32,
    pub parity: i32,
    pub sum: f64,
    pub direction: i64,
    pub waits: i64,
    pub behind: i64,
    pub alpha_before: f64,
    pub b_norm2: f64,
    pub whole_norm2: f64,
    pub largest: u64,
    pub largest_guess: u64,
    pub not_finite: u64,
    pub ticket: u32,
    pub unused: u32,
    pub ring: [Step; RING],
}

impl Scalars {
    /// Before anything.
    pub const START: Self = Self {
        per_unit: 1.0,
        threshold: 0.0,
        vanishing: 0.0,
        iteration: 0,
        max_iter: 0,
        pause_at: 0,
        done: 0,
        preconditioned: 0,
        code: 0,
        rho: 0.0,
        sigma: 0.0,
        alpha: 0.0,
        beta: 0.0,
        norm2: 0.0,
        norm: 0.0,
        met: 0,
        ring_used: 0,
        parity: 0,
        sum: 0.0,
        direction: 0,
        waits: 0,
        behind: 0,
        alpha_before: 0.0,
        b_norm2: 0.0,
        whole_norm2: 0.0,
        largest: 0,
        largest_guess: 0,
        not_finite: 0,
        ticket: 0,
        unused: 0,
        ring: [Step { norm: 0.0, alpha: 0.0, beta: 0.0 }; RING],
    };
}

/// How the loop stands: `Scalars::code`.
pub mod code {
    pub const RUNNING: i32 = 0;
    pub const MET: i32 = 1;
    pub const MAX_ITER: i32 = 2;
    pub const SPENT: i32 = 3;
    pub const SIGMA_VANISHED: i32 = 4;
    pub const RHO_NEGATIVE: i32 = 5;
    pub const RHO_BAD: i32 = 6;
    pub const SIGMA_BAD: i32 = 7;
    pub const PAUSED: i32 = 8;
}

/// What a kernel does with its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// They stay as they are.
    Nothing = 0,
    /// A start: no alpha, no beta yet.
    Start = 1,
    /// An iteration of the loop.
    Loop = 2,
    /// As a start, after a loop that does not go on.
    Confirm = 3,
}

/// How M is stored, for the factorization.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Format {
    pub unit: f64,
    pub per_unit: f64,
    pub storage: i32,
}

impl Format {
    pub fn new(storage: Storage, unit: f64) -> Self {
        Self { unit, per_unit: unit.recip(), storage: storage as i32 }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CopyArgs {
    pub g: Geometry,
    pub m: Matrix,
    pub arrays: [Address; 5],
    pub ld: [i64; 5],
    pub first_row: i32,
    pub rows: i32,
    pub findings: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExcessArgs {
    pub g: Geometry,
    pub m: Matrix,
    pub excess: Address,
    pub zero_row_sum: f64,
    pub nine_points: i32,
    pub findings: Address,
    pub same: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UniformArgs {
    pub g: Geometry,
    pub same: Address,
    pub uniform: Address,
    pub count: Address,
    pub next: Geometry,
    pub next_same: Address,
}

impl UniformArgs {
    fn threads(&self) -> usize {
        let patches = if self.next_same == 0 { 0 } else { self.next.tiles_and_patches().1 };
        self.g.tiles_and_patches().0.max(patches)
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ComponentArgs {
    pub g: Geometry,
    pub m: Matrix,
    pub excess: Address,
    pub parent: Address,
    pub marks: Address,
    pub findings: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CouplingArgs {
    pub k: Grid,
    pub m: Matrix,
    pub format: Format,
    pub nine_points: i32,
    pub compensate: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    pub lost: f64,
    pub black_keeps: f64,
    pub level: i32,
    pub x0: i32,
    pub y0: i32,
    pub step: i32,
    pub fine_nx: i32,
    pub fine_ny: i32,
    pub fine: Geometry,
    pub center: Address,
    pub label: Address,
    pub findings: Address,
    pub format: Format,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LevelArgs {
    pub k: Grid,
    pub rules: Rules,
    pub exact: Address,
    pub corners: i32,
    pub black: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CoarseArgs {
    pub k: Grid,
    pub rules: Rules,
    pub next: Grid,
    pub natural: Address,
    pub nx: i32,
    pub ny: i32,
    pub weigh: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SchurCenterArgs {
    pub k: Grid,
    pub center: Address,
    pub schur: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LinesArgs {
    pub rules: Rules,
    pub natural: Address,
    pub nx: i32,
    pub ny: i32,
    pub n: i32,
    pub step: i32,
    pub own: Address,
    pub left: Address,
    pub right: Address,
    pub onward: Address,
    pub left_excess: Address,
    pub right_excess: Address,
    pub inverse_pivot: Address,
    pub inverse: Address,
    pub narrow: Address,
    pub unit: f64,
}

impl LinesArgs {
    /// A line has as many nodes as rows along the shorter side allow.
    pub fn lines(&self) -> i32 {
        let row = self.nx.min(self.ny);
        (self.n as u32).div_ceil((LINE as i32 / row * row) as u32) as i32
    }

    /// Lines that go with this step.
    fn gone(&self) -> u32 {
        ((self.lines() + self.step) / (2 * self.step)) as u32
    }

    /// Lines that are left after it.
    fn stayed(&self) -> u32 {
        (self.lines() / (2 * self.step)) as u32
    }
}

/// The remainder's product.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Rest {
    pub g: Geometry,
    pub inverse: Address,
    pub r: Address,
    pub z: Address,
    pub n: i32,
}

/// The end of the way down.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TurnArgs {
    pub scalars: Address,
    pub rho_partial: Address,
    pub norm_partial: Address,
    pub rho_count: i32,
    pub norm_count: i32,
    pub how: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RemainderArgs {
    pub rest: Rest,
    pub partial: Address,
    pub turn: TurnArgs,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StepArgs {
    pub k: Level,
    pub op: Address,
    pub partial: Address,
    pub turn: TurnArgs,
    pub beside: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct InnerProductArgs {
    pub k: Level,
    pub a: i32,
    pub b: i32,
    pub partial: Address,
    pub scalars: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SchurArrays {
    pub g: Geometry,
    pub d: Address,
    pub far: Address,
    pub center: Address,
    pub r_b1: [Address; 2],
    pub r_b2: Address,
    pub x: [Address; 2],
    pub q: [Address; 2],
    pub p: [[Address; 2]; 2],
    pub b: [Address; 2],
    pub scalars: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstArgs {
    pub v: SchurArrays,
    pub k: Level,
    pub input: [Address; 2],
    pub partial: Address,
    pub norm_partial: Address,
    pub sigma_partial: Address,
    pub how: i32,
    pub once: i32,
    pub rows: i32,
    pub rows_down: i32,
    pub with_x: i32,
    pub pairs: i32,
    pub conditional: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SchurArgs {
    pub v: SchurArrays,
    pub partial: Address,
    pub how: i32,
    pub conditional: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CycleArgs {
    pub ops: Address,
    pub count: i32,
    pub base: i32,
    pub grids: [Level; MOST_GRIDS],
    pub rest: Rest,
    pub rho_partial: Address,
    pub norm_partial: Address,
    pub sigma_partial: Address,
    pub turn: TurnArgs,
    pub meeting: Address,
    pub crew: i32,
    pub crew_base: i32,
    pub last: i32,
    pub members: i32,
    pub slots: Address,
    pub for_x: i32,
    pub v: SchurArrays,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SolveArgs {
    pub cycle: CycleArgs,
    pub first: FirstArgs,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct InspectArgs {
    pub input: Address,
    pub output: Address,
    pub ld: i64,
    pub nx: i32,
    pub rows: i32,
    pub first_row: i32,
    pub scalars: Address,
    pub partial: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TransferArgs {
    pub g: Geometry,
    pub colours: Address,
    pub natural: Address,
    pub ld: i64,
    pub first_row: i32,
    pub rows: i32,
    pub scale: f64,
    pub guard: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LargestArgs {
    pub g: Geometry,
    pub v: Address,
    pub scalars: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DotArgs {
    pub g: Geometry,
    pub a: Address,
    pub b: Address,
    pub first: i32,
    pub count: i32,
    pub partial: Address,
    pub scalars: Address,
    pub norm_partial: Address,
    pub norm_count: i32,
    pub how: i32,
    pub to: Address,
    pub factor: f64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UpdateArgs {
    pub g: Geometry,
    pub first: i32,
    pub count: i32,
    pub target: Address,
    pub other: Address,
    pub source: Address,
    pub factor: f64,
    pub per_unit: f64,
    pub partial: Address,
    pub scalars: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProductArgs {
    pub g: Geometry,
    pub m: Matrix,
    pub nine_points: i32,
    pub v: Address,
    pub b: Address,
    pub out: Address,
    pub partial: Address,
    pub scalars: Address,
    pub how: i32,
    pub conditional: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReduceArgs {
    pub k: Grid,
    pub b: Address,
    pub x: Address,
    pub r: [Address; 2],
    pub scalars: Address,
}

/// The start and the end of a solve.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EndArgs {
    pub k: Grid,
    pub center: Address,
    pub b: Address,
    pub x: Address,
    pub r: [Address; 2],
    pub input: Address,
    pub output: Address,
    pub input_ld: i64,
    pub output_ld: i64,
    pub scale: f64,
    pub least: f64,
    pub limit: f64,
    pub guess: i32,
    pub how: i32,
    pub partial: Address,
    pub whole_partial: Address,
    pub scalars: Address,
}

/// What the host reads of the scalars: all but the ring, and so many steps of it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ReportArgs {
    pub scalars: Address,
    pub found: Address,
    pub steps: i32,
}

/// Where the loop of PCG begins before the host has seen what it starts from.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SetOutArgs {
    pub scalars: Address,
    pub found: Address,
    pub scale: f64,
    pub rel_tol: f64,
    pub abs_tol: f64,
    pub futile: f64,
    pub vanishing: f64,
    pub baseless: f64,
    pub max_iter: i64,
    pub pause_at: i64,
    pub preconditioned: i32,
    pub of_initial: i32,
    pub guess: i32,
}

/// Consecutive nodes of one row and colour in one singular component.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub colour: i32,
    pub row: i32,
    pub start: i32,
    pub len: i32,
    pub component: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ProjectionArgs {
    pub g: Geometry,
    pub runs: Address,
    pub count: i32,
    pub by_component: Address,
    pub component_start: Address,
    pub nodes: Address,
    pub sums: Address,
    pub means: Address,
    pub v: Address,
    pub restore: i32,
    pub center: Address,
}

/// A patch as block relaxation sees it: the caller's array and the other one of Jacobi.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockPatch {
    pub u: [Address; 2],
    pub f: Address,
    pub r: Address,
    pub nx: i32,
    pub ny: i32,
    pub nz: i32,
    pub unused: i32,
}

/// A tile of blocks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockItem {
    pub patch: i32,
    pub cell: [i32; 3],
    pub shape: u32,
    pub wait: i32,
    pub done: i32,
    pub faces: u32,
}

/// Inverse of one shape of block.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockTables {
    pub reciprocals: Address,
    pub before: Address,
    pub after: Address,
    pub dense: Address,
    pub packed: Address,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RelaxArgs {
    pub patches: Address,
    pub items: Address,
    pub tables: Address,
    pub progress: Address,
    pub totals: Address,
    pub launches: u32,
    pub from: i32,
    pub to: i32,
    pub own_chunk: i32,
    pub omega: f64,
    pub legs: [f64; 27],
    pub count: u32,
    pub eigenvalues: [f64; 24],
    pub weight: f64,
    pub points: i32,
    pub dense: i32,
    pub arrived: Address,
    pub leaving: Address,
    pub partners: Address,
    pub keep: i32,
    /// It may begin while the kernel before ends; multiprocessors. The kernel does not read them.
    pub behind: bool,
    pub processors: u32,
}

/// A box of ghost cells.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockCopy {
    pub to_patch: i32,
    pub from_patch: i32,
    pub to: i64,
    pub from: i64,
    pub size: [i32; 3],
    pub unused: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExchangeArgs {
    pub patches: Address,
    pub copies: Address,
    pub which: i32,
    pub both: i32,
    /// Blocks of the launch, and as above: the kernel does not read them.
    pub count: u32,
    pub behind: bool,
}

/// Part of an array of u.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockSegment {
    pub first: i64,
    pub patch: i32,
    pub count: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockCopyArgs {
    pub patches: Address,
    pub segments: Address,
    pub from: i32,
    pub to: i32,
    pub ghosts: i32,
    /// As above.
    pub count: u32,
}

/// A tile of cells.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BlockRegion {
    pub patch: i32,
    pub cell: [i32; 3],
    pub number: i64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LookArgs {
    pub patches: Address,
    pub regions: Address,
    pub which: i32,
    pub sums: Address,
    pub bad: Address,
    pub legs: [f64; 27],
    pub scale: f64,
    /// As above.
    pub count: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NormArgs {
    pub sums: Address,
    pub count: i64,
    pub norm: Address,
}

/// Shapes: over the compute area of a grid, or so many blocks of so many threads. The second list has each kernel in three
/// formats of M, and so has the last, whose blocks meet. `or`: a second form, for grids with tiles whose rows are the same.
macro_rules! kernels {
    (plain { $($(#[doc = $doc:literal])* $number:ident $name:ident($arguments:ty) = $symbol:literal, |$a:ident| $blocks:expr, $block:expr $(, or $other:ident = $osymbol:literal in $og:expr)? $(, shared $bytes:expr)? $(, behind $behind:expr)?;)* }
     formats { $($(#[doc = $fdoc:literal])* $fnumber:ident $fname:ident($farguments:ty) = $fsymbol:literal, |$fa:ident, $fs:ident| $fblocks:expr, $fblock:expr $(, or $fother:ident = $fosymbol:literal in $fog:expr)?;)* }
     together { $($(#[doc = $tdoc:literal])* $tnumber:ident $tname:ident($targuments:ty) = $tsymbol:literal;)* }) => {
        enum Number { $($number, $($other,)?)* }
        enum Formatted { $($fnumber, $($fother,)?)* $($tnumber,)* }
        const PLAIN: usize = [$($symbol, $($osymbol,)?)*].len();

        /// Names of all kernels, in the order of their numbers.
        pub const NAMES: &[&str] = &[
            $($symbol, $($osymbol,)?)*
            $(concat!($fsymbol, "_f64"), concat!($fsymbol, "_f32"), concat!($fsymbol, "_bf16"),
              $(concat!($fosymbol, "_f64"), concat!($fosymbol, "_f32"), concat!($fosymbol, "_bf16"),)?)*
            $(concat!($tsymbol, "_f64"), concat!($tsymbol, "_f32"), concat!($tsymbol, "_bf16"),)*
        ];

        $($(#[doc = $doc])*
        pub fn $name(stream: &Stream, $a: &$arguments) -> Result<()> {
            let kernel = Number::$number as usize;
            $(let kernel = if $og.uniform != 0 { Number::$other as usize } else { kernel };)?
            // SAFETY: this is the structure that the kernel takes; its addresses are those of arrays laid out for the
            // extents in it, or of the caller's arrays, whose size the caller promised.
            unsafe { stream.launch(kernel, $blocks, $block, 0 $(+ $bytes)?, false $(|| $behind)?, $a, concat!("kernel ", $symbol)) }
        })*

        $($(#[doc = $fdoc])*
        pub fn $fname(stream: &Stream, $fs: Storage, $fa: &$farguments) -> Result<()> {
            let kernel = Formatted::$fnumber;
            $(let kernel = if $fog.uniform != 0 { Formatted::$fother } else { kernel };)?
            let kernel = PLAIN + 3 * kernel as usize + $fs as usize;
            // SAFETY: as above; the arrays were laid out for this format.
            unsafe { stream.launch(kernel, $fblocks, $fblock, 0, false, $fa, concat!("kernel ", $fsymbol)) }
        })*

        $($(#[doc = $tdoc])*
        pub fn $tname(stream: &Stream, storage: Storage, together: Together, a: &$targuments) -> Result<()> {
            let kernel = PLAIN + 3 * Formatted::$tnumber as usize + storage as usize;
            // SAFETY: as above; all blocks run at once (`Stream::launch_together`).
            unsafe { stream.launch_together(kernel, together, (CREW_THREADS, 1), a, concat!("kernel ", $tsymbol)) }
        })*

        /// Numbers of the kernels whose blocks meet, in this format.
        pub fn meeting_kernels(storage: Storage) -> [usize; 2] {
            [$(PLAIN + 3 * Formatted::$tnumber as usize + storage as usize),*]
        }
    };
}

const OVER_AREA: (u32, u32) = TILE;

kernels! {
    plain {
    /// A from the caller's arrays.
    Copy copy(CopyArgs) = "rrb_copy_f64", |a| tiles(a.g.nx as usize, a.rows as usize), OVER_AREA;
    /// Row sums.
    Excess excess(ExcessArgs) = "rrb_excess_f64", |a| a.g.blocks(), OVER_AREA;
    /// Where its rows are the same, and those of the next grid.
    Uniform uniform(UniformArgs) = "rrb_uniform_f64", |a| a.threads().div_ceil(THREADS as usize) as u32, OVER_AREA;
    /// Components of tiles.
    TileComponents tile_components(ComponentArgs) = "rrb_tile_components_f64", |a| a.g.blocks(), OVER_AREA;
    /// Joins them.
    JoinComponents join_components(ComponentArgs) = "rrb_join_components_f64", |a| a.g.blocks(), OVER_AREA;
    /// Counts them.
    CountComponents count_components(ComponentArgs) = "rrb_count_components_f64", |a| a.g.blocks(), OVER_AREA;
    /// The couplings that M starts from.
    StartCouplings start_couplings(CouplingArgs) = "rrb_start_couplings_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// The odd level.
    EliminateReds eliminate_reds(LevelArgs) = "rrb_eliminate_reds_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// What it leaves.
    FormSkew form_skew(LevelArgs) = "rrb_form_skew_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// The even level.
    EliminateDropped eliminate_dropped(LevelArgs) = "rrb_eliminate_dropped_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// What it leaves.
    FormCoarse form_coarse(CoarseArgs) = "rrb_form_coarse_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// Diagonal of S1.
    SchurCenter schur_center(SchurCenterArgs) = "rrb_schur_center_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// Every second line of the remainder that is left.
    EliminateLines eliminate_lines(LinesArgs) = "rrb_eliminate_lines_f64", |a| a.gone(), (LINE_THREADS, 1);
    /// Rows of the inverse of these lines.
    InvertLines invert_lines(LinesArgs) = "rrb_invert_lines_f64", |a| a.gone() * (a.gone() + a.stayed()), (LINE_THREADS, 1);
    /// Its product.
    Remainder remainder(RemainderArgs) = "rrb_remainder_f64", |a| remainder_blocks(a.rest.n as usize), (THREADS, 1);
    RemainderShort remainder_short(RemainderArgs) = "rrb_remainder_f32", |a| remainder_blocks(a.rest.n as usize), (THREADS, 1);
    RemainderWide remainder_wide(RemainderArgs) = "rrb_remainder_wide_f32", |a| remainder_blocks(a.rest.n as usize), (THREADS, 1);
    /// q = S1 p, sigma, of the plain steps.
    MultiplyFirst multiply_first(SchurArgs) = "rrb_multiply_first_f64", |a| a.v.g.blocks(), OVER_AREA;
    /// The step of x that the loop has left.
    LastStep last_step(SchurArgs) = "rrb_last_step_f64", |a| a.v.g.blocks(), OVER_AREA;
    /// r = b - S1 x.
    ResidualFirst residual_first(SchurArgs) = "rrb_residual_first_f64", |a| a.v.g.blocks(), OVER_AREA;
    /// Largest magnitudes of the caller's arrays.
    Inspect inspect(InspectArgs) = "rrb_inspect_f64", |a| tiles(a.nx as usize, a.rows as usize), OVER_AREA;
    /// The caller's array to the colours.
    Load load(TransferArgs) = "rrb_load_f64", |a| tiles(a.g.nx as usize, a.rows as usize), OVER_AREA;
    /// And back.
    Store store(TransferArgs) = "rrb_store_f64", |a| tiles(a.g.nx as usize, a.rows as usize), OVER_AREA;
    /// max |v|.
    Largest largest(LargestArgs) = "rrb_largest_f64", |a| a.g.blocks(), OVER_AREA;
    /// <a, b>, both in f64, or b in f32.
    Dot dot(DotArgs) = "rrb_dot_f64", |a| a.g.blocks(), OVER_AREA;
    DotShort dot_short(DotArgs) = "rrb_dot_f32", |a| a.g.blocks(), OVER_AREA;
    /// target += factor source.
    AddScaled add_scaled(UpdateArgs) = "rrb_add_scaled_f64", |a| a.g.blocks(), OVER_AREA;
    /// x += alpha p, p = z + beta p: all in f64, or z in f32.
    Advance advance(UpdateArgs) = "rrb_advance_f64", |a| a.g.blocks(), OVER_AREA;
    AdvanceShort advance_short(UpdateArgs) = "rrb_advance_f32", |a| a.g.blocks(), OVER_AREA;
    /// target = source / unit + factor target, source in f64 or f32.
    Direction direction(UpdateArgs) = "rrb_direction_f64", |a| a.g.blocks(), OVER_AREA;
    DirectionShort direction_short(UpdateArgs) = "rrb_direction_f32", |a| a.g.blocks(), OVER_AREA;
    /// The same to f32, from f64.
    Narrow narrow(UpdateArgs) = "rrb_narrow_f32", |a| a.g.blocks(), OVER_AREA;
    /// A v.
    Multiply multiply(ProductArgs) = "rrb_multiply_f64", |a| a.g.blocks(), OVER_AREA;
    /// b - A v.
    Residual residual(ProductArgs) = "rrb_residual_f64", |a| a.g.blocks(), OVER_AREA;
    /// The same in place of b.
    RhsToResidual rhs_to_residual(ProductArgs) = "rrb_rhs_to_residual_f64", |a| a.g.blocks(), OVER_AREA;
    /// To S1.
    Reduce reduce(ReduceArgs) = "rrb_reduce_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// And back.
    BackSubstitute back_substitute(ReduceArgs) = "rrb_back_substitute_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// The start of a solve: a look at b and x, both to the colours, b to S1.
    Begin begin(EndArgs) = "rrb_begin_f64", |a| a.k.g.blocks(), OVER_AREA, or BeginUniform = "rrb_begin_uniform_f64" in a.k.g;
    /// The same from a guess: with r of S1 and |b - A x|^2.
    BeginAt begin_at(EndArgs) = "rrb_begin_at_f64", |a| end_blocks(&a.k.g), OVER_AREA, or BeginAtUniform = "rrb_begin_at_uniform_f64" in a.k.g;
    /// |b - A x|^2 on all nodes.
    WholeResidual whole_residual(EndArgs) = "rrb_whole_residual_f64", |a| end_blocks(&a.k.g), OVER_AREA;
    /// r of S1 as b - A x on all nodes leaves it, and its part on red nodes.
    EliminatedResidual eliminated_residual(EndArgs) = "rrb_eliminated_residual_f64", |a| end_blocks(&a.k.g), OVER_AREA;
    /// Red values of x, then |b - A x|^2, or r of S1.
    Finish finish(EndArgs) = "rrb_finish_f64", |a| end_blocks(&a.k.g), OVER_AREA, or FinishUniform = "rrb_finish_uniform_f64" in a.k.g;
    FinishEliminated finish_eliminated(EndArgs) = "rrb_finish_eliminated_f64", |a| end_blocks(&a.k.g), OVER_AREA, or FinishEliminatedUniform = "rrb_finish_eliminated_uniform_f64" in a.k.g;
    /// The caller's x, where the solve ends here.
    Deliver deliver(EndArgs) = "rrb_deliver_f64", |a| tiles(a.k.g.nx as usize, a.k.g.ny as usize), OVER_AREA;
    /// The scalars to the host.
    Report report(ReportArgs) = "rrb_report_f64", |_a| 1, (THREADS, 1);
    /// The loop's test, after a start.
    SetOut set_out(SetOutArgs) = "rrb_set_out_f64", |_a| 1, (32, 1);
    /// Sums of runs.
    RunSums run_sums(ProjectionArgs) = "rrb_run_sums_f64", |a| run_blocks(a.count), (THREADS, 1);
    RunSumsShort run_sums_short(ProjectionArgs) = "rrb_run_sums_f32", |a| run_blocks(a.count), (THREADS, 1);
    /// Means of components; `count` is that of the components.
    ConstantSquares constant_squares(ProjectionArgs) = "rrb_constant_squares_f64", |a| run_blocks(a.count), (THREADS, 1);
    ComponentMeans component_means(ProjectionArgs) = "rrb_component_means_f64", |a| a.count as u32, (THREADS, 1);
    /// Shifts runs.
    ShiftRuns shift_runs(ProjectionArgs) = "rrb_shift_runs_f64", |a| run_blocks(a.count), (THREADS, 1);
    ShiftRunsShort shift_runs_short(ProjectionArgs) = "rrb_shift_runs_f32", |a| run_blocks(a.count), (THREADS, 1);
    /// Keeps means; `count` is that of the components.
    KeepMeans keep_means(ProjectionArgs) = "rrb_keep_means_f64", |a| (a.count as u32).div_ceil(THREADS).min(MOST_BLOCKS), (THREADS, 1);
    /// Blocks of 8^3 of a 7-point stencil.
    RelaxCubes relax_cubes(RelaxArgs) = "smoother_relax_cubes_f64", |a| a.count, (TILE_THREADS, 1), behind a.behind;
    /// Any blocks of a 7-point stencil.
    Relax7 relax_7(RelaxArgs) = "smoother_relax_7_f64", |a| a.count, (TILE_THREADS, 1), behind a.behind;
    /// Any blocks of a 27-point stencil.
    Relax27 relax_27(RelaxArgs) = "smoother_relax_27_f64", |a| a.count, (TILE_THREADS, 1), behind a.behind;
    /// Dense inverses of blocks of 8^3.
    RelaxDense relax_dense(RelaxArgs) = "smoother_relax_dense_f64", |a| dense_blocks(a), (DENSE_THREADS, 1), shared DENSE_BYTES, behind a.behind;
    /// Ghost cells from other patches.
    Exchange exchange(ExchangeArgs) = "smoother_exchange_f64", |a| a.count, (TILE_THREADS, 1), behind a.behind;
    /// From one array of u to the other.
    CopyPatches copy_patches(BlockCopyArgs) = "smoother_copy_f64", |a| a.count, (THREADS, 1);
    /// Looks for values that are not finite.
    InspectPatches inspect_patches(LookArgs) = "smoother_inspect_f64", |a| a.count, (TILE_THREADS, 1);
    /// f - A u.
    ResidualPatches residual_patches(LookArgs) = "smoother_residual_f64", |a| a.count, (TILE_THREADS, 1);
    /// Its norm.
    NormPatches norm_patches(NormArgs) = "smoother_norm_f64", |_a| 1, (THREADS, 1);
    }
    formats {
    /// Down a grid.
    Descend descend(StepArgs) = "rrb_descend", |a, s| sweep_blocks(&a.k.g, a.beside, s), (SWEEP_THREADS, 1), or DescendUniform = "rrb_descend_uniform" in a.k.g;
    /// Up a grid.
    Ascend ascend(StepArgs) = "rrb_ascend", |a, s| sweep_blocks(&a.k.g, a.beside, s), (SWEEP_THREADS, 1), or AscendUniform = "rrb_ascend_uniform" in a.k.g;
    /// A step of the iteration on a recursion grid.
    Inner inner(StepArgs) = "rrb_inner", |a, _s| a.k.g.blocks(), OVER_AREA;
    /// A product there.
    InnerProduct inner_product(InnerProductArgs) = "rrb_inner_product", |a, _s| a.k.g.blocks(), OVER_AREA;
    /// A vector with all frequencies.
    Draw draw(StepArgs) = "rrb_draw", |a, _s| a.k.g.blocks(), OVER_AREA;
    /// Down the first grid of S1, with r -= alpha q in the loop.
    DescendFirst descend_first(FirstArgs) = "rrb_descend_first", |a, _s| a.v.g.first_blocks(a.rows), OVER_AREA, or DescendFirstUniform = "rrb_descend_first_uniform" in a.v.g;
    /// Up it, to z.
    AscendFirst ascend_first(FirstArgs) = "rrb_ascend_first", |a, _s| a.v.g.blocks(), OVER_AREA;
    /// Up it, to p, x where it is due, q = S1 p, sigma.
    AdvanceFirst advance_first(FirstArgs) = "rrb_advance_first", |a, _s| a.v.g.first_blocks(a.rows), OVER_AREA, or AdvanceFirstUniform = "rrb_advance_first_uniform" in a.v.g;
    }
    together {
    /// A run of steps on small grids.
    Cycle cycle(CycleArgs) = "rrb_cycle";
    /// The whole iteration of a small problem.
    Solve solve(SolveArgs) = "rrb_solve";
    }
}

/// Whether kernels whose blocks meet may take so much shared memory, in a format.
pub fn allow_crew(device: &Device, storage: Storage, bytes: u32) -> bool {
    meeting_kernels(storage).into_iter().all(|kernel| device.allow_shared(kernel, bytes))
}

/// What `relax_dense` was compiled for at least: clusters, bulk copies. Older code of it is empty.
const DENSE_ARCHITECTURE: i32 = 90;

/// Whether the device has the shared memory of `relax_dense`, and the library its code: one compiled for older devices alone
/// (`RRBSOLVER_CUDA_ARCHITECTURES=80`) runs on newer ones without it.
pub fn allow_dense(device: &Device) -> bool {
    let kernel = Number::RelaxDense as usize;
    device.architecture(kernel) >= DENSE_ARCHITECTURE && device.allow_shared(kernel, DENSE_BYTES)
}

/// Blocks of threads that stay, as many rounds each, whole clusters of them.
fn dense_blocks(a: &RelaxArgs) -> u32 {
    let (groups, most) = (a.count.div_ceil(COLUMNS), (a.processors / CLUSTER * CLUSTER).max(CLUSTER));
    groups.div_ceil(groups.div_ceil(most).max(1)).next_multiple_of(CLUSTER)
}

/// Blocks of a sweep: no more than 132 multiprocessors run at once, three each in f64 and four else, so that none waits for a
/// second turn.
pub fn sweep_blocks(g: &Geometry, beside: i32, storage: Storage) -> u32 {
    let most = if storage == Storage::F64 { MOST_BLOCKS / 4 * 3 } else { MOST_BLOCKS };
    (g.blocks() + beside as u32).min(most)
}

/// Blocks that x += alpha p gives one piece to each warp: kernels/fused.cu, `advance_x`.
pub fn blocks_of_x(g: &Geometry) -> u32 {
    ((g.cx as u32).div_ceil(128) * g.cy as u32).div_ceil(CREW_THREADS / 32)
}

/// Blocks of a start from a guess, and of an end: three to a multiprocessor.
fn end_blocks(g: &Geometry) -> u32 {
    g.blocks().min(MOST_BLOCKS / 4 * 3)
}

/// Blocks of the remainder's product, each with one sum.
pub fn remainder_blocks(n: usize) -> u32 {
    (n as u32).div_ceil(PRODUCT_ROWS)
}

fn run_blocks(count: i32) -> u32 {
    (count as u32).div_ceil(THREADS / 32).clamp(1, MOST_BLOCKS)
}
