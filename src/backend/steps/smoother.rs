//! Block relaxation on patches: the steps of the methods, and what a backend is told about a list of patches.

use super::engine::Engine;
use crate::error::{Error, Result};
use crate::grid::block_inverse::{Shape, Stencil};
use crate::grid::patches::{Cut, PatchList};
use crate::runtime::heap::Counted;

/// How a block's system is solved.
pub enum Inverse {
    /// Row by row.
    Dense(Vec<f64>),
    /// By sine transforms.
    Diagonal {
        /// Weighted 1 / Lambda, x fastest.
        reciprocals: Vec<f64>,
        /// D^-1 and D, where they are not 1.
        scalings: Option<(Vec<f64>, Vec<f64>)>,
    },
}

/// Which block waits for which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// All from old values.
    Jacobi,
    /// Colour after colour.
    Coloured,
    /// In whatever order, from whatever values are there.
    Chaotic,
}

/// What threads share among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parallel {
    /// One work list of all blocks of all patches.
    Flat,
    /// Whole patches.
    Patches,
    /// The blocks of one patch after the other.
    Blocks,
    /// Patches among groups of threads, blocks among the threads of a group; the number of groups, 0: chosen.
    Nested(usize),
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The method.
    pub method: Method,
    /// Relaxation.
    pub omega: f64,
    /// Sweeps.
    pub sweeps: usize,
    /// Cuts of even and odd sweeps.
    pub cuts: [Cut; 2],
    /// Colours, or with chaotic the blocks of a patch, in reverse order.
    pub reverse: bool,
    /// What threads share.
    pub parallel: Parallel,
    /// Refuse NaN and infinity.
    pub check_input: bool,
    /// Copies of patches that live on the host run beside the work on a device.
    pub overlap_copies: bool,
}

/// Colours in which no two blocks touch: 2 for a 7-point stencil, 8 for 27 points.
pub fn colours(stencil: &Stencil) -> usize {
    if stencil.points == 7 { 2 } else { 8 }
}

/// Colour of the block at global block index (i, j, k): red-black, or (i & 1) + 2 (j & 1) + 4 (k & 1).
pub fn colour(colours: usize, [i, j, k]: [i64; 3]) -> usize {
    if colours == 2 { ((i + j + k) & 1) as usize } else { ((i & 1) + 2 * (j & 1) + 4 * (k & 1)) as usize }
}

/// The first cell that is not finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BadCell {
    /// u or f.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// Number of the patch.
    pub patch: usize,
    /// Place in the patch.
    pub cell: [usize; 3],
}

/// The steps of block relaxation. Every member of a team calls them in the same order and gets the same answers.
pub trait SmootherSteps {
    /// The first bad value of u (without ghosts) and f; by patch, u before f.
    fn bad_cell(&mut self) -> Option<BadCell>;
    /// Ghost cells that other patches cover are read from them.
    fn exchange(&mut self);
    /// The caller's function fills the other ghost cells; true: it asks to stop.
    fn fill(&mut self, sweep: i32) -> bool;
    /// u_b + omega A_b^-1 (f - A u)_b for all blocks, from the values before.
    fn jacobi(&mut self, cut: &Cut, omega: f64);
    /// The same for the blocks of one colour.
    fn colour(&mut self, cut: &Cut, omega: f64, colour: usize);
    /// How many there are.
    fn colours(&self) -> usize;
    /// Colour after colour.
    fn all_colours(&mut self, cut: &Cut, omega: f64, reverse: bool) {
        let colours = self.colours();
        for c in 0..colours {
            self.colour(cut, omega, if reverse { colours - 1 - c } else { c });
        }
    }
    /// All blocks in place, each from what it finds.
    fn chaotic(&mut self, cut: &Cut, omega: f64, reverse: bool);
    /// ||scale (f - A u)||_2 over all patches, without a care for its range: `solver::smoother::norm` has.
    /// The residual,
    /// not scaled, is kept where the caller gave arrays for it.
    fn residual(&mut self, scale: f64) -> f64;
    /// Whether somebody wants to see residuals.
    fn watched(&self) -> bool;
    /// Shows one; true: stop.
    fn show(&mut self, sweep: usize, relative_residual: f64) -> bool;
    /// The result is brought into the caller's arrays.
    fn settle(&mut self);
}

/// What the methods of one call have done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Swept {
    /// Sweeps done.
    pub sweeps: usize,
    /// The caller's function, or the monitor, asked to stop.
    pub stopped: bool,
    /// Bad input; nothing was done but a residual.
    pub bad: Option<BadCell>,
    /// A norm was too large, or no number where input is checked: `residual` is it.
    pub overflow: bool,
    /// The norm of the last residual, where one was computed.
    pub residual: f64,
    /// That of the first.
    pub initial_residual: f64,
}

/// Caller's arrays of one call, by patch.
pub trait PatchArrays {
    /// With ghost cells.
    fn u(&self, patch: usize) -> &[f64];
    /// To write.
    fn u_mut(&mut self, patch: usize) -> &mut [f64];
    /// Without ghost cells.
    fn f(&self, patch: usize) -> &[f64];
    /// Where the residual goes, if the caller wants it.
    fn r_mut(&mut self, patch: usize) -> Option<&mut [f64]>;
    /// The same as pointers.
    fn pointers(&self) -> Pointers<'_>;
    /// They are on the backend's device: pointers only.
    fn on_device(&self) -> bool;
}

/// Arrays that a backend keeps, one pointer a patch.
#[derive(Default)]
pub struct Kept {
    /// With ghost cells.
    pub u: Vec<*mut f64>,
    /// Without.
    pub f: Vec<*mut f64>,
}

/// Arrays of patches as pointers; empty where the call has none.
#[derive(Clone, Copy)]
pub struct Pointers<'a> {
    /// u.
    pub u: &'a [*mut f64],
    /// f.
    pub f: &'a [*const f64],
    /// Residual.
    pub r: &'a [*mut f64],
}

/// The caller's functions; called on the calling thread.
pub trait Watcher {
    /// Whether there is a function for ghost cells.
    fn fills(&self) -> bool;
    /// Calls it; true: stop.
    fn fill(&mut self, sweep: i32, u: &[*mut f64]) -> bool;
    /// Whether residuals are wanted.
    fn watched(&self) -> bool;
    /// Hands one over; true: stop.
    fn show(&mut self, sweep: usize, relative_residual: f64) -> bool;
}

/// What a call runs, on every member of a team.
pub type SmootherProgram = fn(&mut dyn SmootherSteps, &Work) -> Swept;

/// What a backend needs to know about a list of patches.
pub struct Blocks {
    /// The operator.
    pub stencil: Stencil,
    /// The patches.
    pub list: Counted<PatchList>,
}

/// A place where patches are relaxed.
pub trait SmootherBackend: Engine {
    /// Whether the inverse for this shape is there.
    fn has_inverse(&self, shape: Shape) -> bool;
    /// How many are there.
    fn inverses(&self) -> usize;
    /// Keeps an inverse; it stays when patches change.
    fn add_inverse(&mut self, shape: Shape, inverse: Inverse) -> Result<()>;
    /// New patches; memory grows only when it must.
    fn set_patches(&mut self, blocks: Blocks) -> Result<()>;
    /// What a method needs beside u and f: memory, lists of blocks.
    fn prepare(&mut self, work: &Work) -> Result<()>;
    /// The patches in use.
    fn blocks(&self) -> Option<&Blocks>;
    /// Runs a program on the caller's arrays.
    fn run(
        &mut self,
        arrays: &mut dyn PatchArrays,
        watcher: &mut dyn Watcher,
        work: &Work,
        program: SmootherProgram,
    ) -> Result<Swept>;
    /// Arrays on the device for the patches in use, zero at first; they stay until `set_patches`.
    fn keep_arrays(&mut self) -> Result<Kept> {
        Err(Error::Internal("this backend has no device".to_owned()))
    }
    /// Copies values to, from or between arrays of the patches in use on the device: (to, from, count).
    fn copy(&mut self, copies: &[(*mut f64, *const f64, usize)]) -> Result<()> {
        let _ = copies;
        Err(Error::Internal("this backend has no device".to_owned()))
    }
}
