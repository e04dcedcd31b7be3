//! The steps of RRB-PCG on the device, and the loop that runs there by itself.
//!
//! A step launches and returns; one that returns a scalar waits for it. The loop of PCG is recorded into a graph whose
//! WHILE node repeats it until the decisions of `solver::krylov`, taken on the device (kernels/rrb/scalars.cuh,
//! `update` and `end_of_iteration`), end it: no scalar comes to the host in between. The ring of the last iterations is
//! read when the loop ends or pauses.

use super::packed::{Packed, Recorded, Remainder, Source};
use super::program::Part;
use super::projection::Nodes;
use super::setup::place_in;
use super::terms::Terms;
use crate::backend::cuda::driver::{Device, Loop, Stream};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{
    Address, DotArgs, EndArgs, How, InspectArgs, LargestArgs, ProductArgs, RING, ReduceArgs, Scalars, SetOutArgs, Step,
    TransferArgs, UpdateArgs, code,
};
use crate::backend::cuda::staging::{Copies, Job};
use crate::backend::steps::cycle::Recursion;
use crate::backend::steps::pcg::{ENERGY, LoopEnd, LoopEnding, LoopTest, PcgSteps, SQUARE};
use crate::backend::steps::rrb::{Arrays, Criterion, Inputs, RrbSteps};
use crate::error::{Error, Result, reserve, zeroed};
use crate::grid::stencil::ring_index;
use crate::report::Observer;
use crate::runtime::number::Real;
use bytemuck::Pod;
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Instant;

/// Iterations between two looks at a monitor that may stop the solve.
const MONITOR_LAG: i64 = 32;

/// Iterations in the body of a recorded loop. Of several loops that one is launched which loses least where a solve
/// takes as many iterations as the last ones; the first where nothing is known. Few are to be expected where M ends
/// early.
const BODIES: [usize; 4] = [4, 5, 6, 7];
const BODIES_SHORT: [usize; 4] = [2, 3, 5, 7];

/// What a loop of so many iterations loses by its body, in ns: going round takes time, and so do iterations of the body
/// that find the loop over (measured on an H200, docs/performance-gpu.md).
fn lost(body: usize, iterations: usize) -> usize {
    let rounds = iterations.div_ceil(body);
    4_500 * rounds.saturating_sub(1) + 15_000 * (rounds * body - iterations)
}

/// Entries of the ring that come with the scalars; more are fetched when there are more.
const FIRST_FETCH: usize = 64;

/// One run: what is on the device, and the caller's arrays.
pub struct Run<'a> {
    pub k: &'a mut Packed,
    pub source: &'a Source,
    pub stream: &'a Stream,
    pub arrays: Arrays<'a>,
    pub observer: &'a mut dyn Observer,
    /// The first failure of the driver: steps after it do nothing.
    pub failed: Option<Error>,
    /// Seconds of copies between host and device.
    pub seconds_transfer: f64,
    /// Addresses of the caller's arrays on the device, or of their copies there, and their leading dimensions.
    input: (Address, usize),
    output: (Address, usize),
    ready: Ready,
    /// Work is launched ahead, and the loop runs on the device.
    ahead: bool,
    /// Of the right-hand side as loaded.
    scale: f64,
    expected: &'a mut Option<Expected>,
    copies: &'a mut Copies,
    /// Arrays are on their way to the device.
    sending: bool,
    /// What runs is a solve.
    solves: bool,
    begun: Option<Begun>,
    /// What the solve tests, where the loop may begin before the host has seen the start.
    criterion: Option<Criterion>,
    /// The loop has begun so.
    under_way: Option<Terms>,
    /// It may be on the stream still.
    pub queued: bool,
    /// The start was that of `begin`: black values of b are those of S1, and the end is that of `rrb_finish`.
    joined: bool,
    /// The caller has an iterate, which another may not be better than.
    stored: bool,
    /// The caller's x is there.
    delivered: bool,
    /// So has `begin` left `largest`, and nothing since has written it.
    largest_is_zero: bool,
}

/// Below this largest value of x, and where `Criterion::lost` says so, the host decides whether x is the caller's:
/// values may be subnormal.
const FAR_FROM_SUBNORMAL: f64 = 1e-200;

/// Scale of b, and whether there is a guess, as in the last solve: the next one most often has the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    scale: f64,
    guess: bool,
}

/// A start stays with a scale that is at most this much too large: b that grows and falls from one time step to the
/// next would else be begun with anew each time that it passes a power of two. (So in kernels/rrb/ends.cuh.)
const NEAR_SCALE: f64 = 256.0;

/// What a start from the caller's arrays has found.
#[derive(Clone, Copy)]
struct Begun {
    with: Expected,
    /// <b, b>, scaled.
    b_norm2: f64,
    whole_norm2: f64,
    start: Start,
}

/// What is known already: work that follows for certain, or nearly so, is launched before the host waits.
#[derive(Clone, Copy, Default)]
struct Ready {
    /// <b, b> as given.
    b_norm2: Option<f64>,
    /// |b - A x|^2, of the guess or after the loop.
    whole_norm2: Option<f64>,
    /// r'M^-1 r of r = b - A x on all nodes, after the loop.
    whole_square: Option<f64>,
    /// After the loop: the right-hand side is that of the caller's matrix again.
    rhs_loaded: bool,
    /// r is the right-hand side that CG works on.
    r_is_rhs: bool,
    /// After the loop: r = b - A x is there, and <r, r>.
    norm2: Option<f64>,
    start: Option<Start>,
    /// z of the start is p.
    z_is_p: bool,
    /// Red values of x are there, and max |x|.
    largest: Option<f64>,
}

/// After a start: <r, r>, rho and sigma; p = z and q = A p are there too.
#[derive(Clone, Copy)]
struct Start {
    norm2: f64,
    rho: f64,
    sigma: f64,
}

/// Squares of numbers between these neither vanish nor overflow, nor do sums of them.
const SQUARES_FIT: std::ops::Range<f64> = 1e-120..1e120;

/// `RRBSOLVER_CUDA_GRAPH=off`: the same kernels, launched one by one, for tools that do not follow a recorded loop.
fn without_graphs() -> bool {
    std::env::var_os("RRBSOLVER_CUDA_GRAPH").is_some_and(|value| value == "off")
}

impl<'a> Run<'a> {
    pub fn new(
        k: &'a mut Packed,
        source: &'a Source,
        stream: &'a Stream,
        arrays: Arrays<'a>,
        observer: &'a mut dyn Observer,
        expected: &'a mut Option<Expected>,
        copies: &'a mut Copies,
    ) -> Result<Self> {
        let grid = k.shape.source.grid;
        let staging = if arrays.device_input != 0 && arrays.device_output != 0 { 0 } else { k.stage(stream)? };
        let place = |device: u64, staged: Address| if device != 0 { (device, arrays.ld) } else { (staged, grid.nx) };
        let input = place(arrays.device_input, staging);
        let output = place(arrays.device_output, staging + 8 * grid.nodes() as u64);
        k.grid_seconds.clear();
        let (ready, ahead, scale) = (Ready::default(), true, 1.0);
        let (failed, seconds_transfer) = (None, 0.0);
        let (solves, begun, joined, stored, delivered, largest_is_zero) = (false, None, false, false, false, false);
        let (criterion, under_way, queued) = (None, None, false);
        Ok(Self {
            k,
            source,
            stream,
            arrays,
            observer,
            failed,
            seconds_transfer,
            input,
            output,
            ready,
            ahead,
            scale,
            expected,
            copies,
            sending: false,
            solves,
            begun,
            criterion,
            under_way,
            queued,
            joined,
            stored,
            delivered,
            largest_is_zero,
        })
    }

    /// Does `f` unless something failed before; keeps its failure.
    fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Option<T> {
        if self.failed.is_some() {
            return None;
        }
        match f(self) {
            Ok(value) => Some(value),
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }

    /// A step without result.
    fn step(&mut self, f: impl FnOnce(&mut Self) -> Result<()>) {
        let _ = self.attempt(f);
    }

    /// A step with a scalar; NaN after a failure, which ends every text.
    fn scalar(&mut self, f: impl FnOnce(&mut Self) -> Result<f64>) -> f64 {
        self.attempt(f).unwrap_or(f64::NAN)
    }

    /// Waits, and reads the scalars.
    fn fetch(&mut self) -> Result<&Scalars> {
        self.k.fetch_scalars(self.stream)
    }

    /// <b, b> on the whole grid.
    fn dot_b(&mut self) -> Result<f64> {
        launch::dot(self.stream, &self.k.dot_args(self.k.b, self.k.b, (0, 4), offset_of!(Scalars, sum)))?;
        Ok(self.fetch()?.sum)
    }

    /// <r, r>.
    fn dot_r(&mut self) -> Result<f64> {
        self.k.dot_r(self.stream, offset_of!(Scalars, sum))?;
        Ok(self.fetch()?.sum)
    }

    fn product(&self, v: Address, out: Address) -> ProductArgs {
        product(self.k, self.source, v, out)
    }
}

fn product(k: &Packed, source: &Source, v: Address, out: Address) -> ProductArgs {
    ProductArgs {
        g: source.g,
        m: source.m,
        nine_points: i32::from(source.shape.nine_points),
        v,
        b: k.b,
        out,
        partial: k.partial,
        scalars: k.scalars_at,
        how: How::Nothing as i32,
        conditional: 0,
    }
}

impl Packed {
    /// <a, b> to one of the scalars.
    fn dot_args(&self, a: Address, b: Address, (first, count): (i32, i32), to: usize) -> DotArgs {
        DotArgs {
            g: self.grids[0].k.g,
            a,
            b,
            first,
            count,
            partial: self.partial,
            scalars: self.scalars_at,
            norm_partial: 0,
            norm_count: 0,
            how: How::Nothing as i32,
            to: self.scalars_at + to as u64,
            factor: 1.0,
        }
    }

    /// z of the first grid.
    fn z(&self) -> Address {
        self.grids[0].sweep.z
    }

    /// <r, M^-1 r> with z = unit M^-1 r, to one of the scalars or, in a loop, for its scalar update.
    fn dot_z(&self, stream: &Stream, how: How, to: usize) -> Result<()> {
        let arguments = DotArgs {
            norm_partial: self.norm_partial,
            norm_count: self.grids[0].k.g.blocks() as i32,
            how: how as i32,
            factor: self.unit.recip(),
            ..self.dot_args(self.r, self.z(), self.system(), to)
        };
        if self.short() { launch::dot_short(stream, &arguments) } else { launch::dot(stream, &arguments) }
    }

    /// <r, r> to one of the scalars.
    fn dot_r(&self, stream: &Stream, to: usize) -> Result<()> {
        launch::dot(stream, &self.dot_args(self.r, self.r, self.system(), to))
    }

    /// Something with the vectors that CG works on.
    fn update(&self, target: Address, source: Address, factor: f64) -> UpdateArgs {
        let (g, (first, count)) = (self.grids[0].k.g, self.system());
        UpdateArgs { g, first, count, target, other: 0, source, factor, per_unit: 1.0, partial: 0, scalars: 0 }
    }

    /// x = M^-1 r, from z.
    fn take_z(&self, stream: &Stream) -> Result<()> {
        let arguments = UpdateArgs { per_unit: self.unit.recip(), ..self.update(self.x, self.z(), 0.0) };
        if self.short() { launch::direction_short(stream, &arguments) } else { launch::direction(stream, &arguments) }
    }

    /// p = M^-1 r + beta p, from z.
    fn direct(&self, stream: &Stream, beta: f64) -> Result<()> {
        let arguments = UpdateArgs { per_unit: self.unit.recip(), ..self.update(self.p, self.z(), beta) };
        if self.short() { launch::direction_short(stream, &arguments) } else { launch::direction(stream, &arguments) }
    }

    /// z = P M^-1 P r with the plain sweeps.
    fn sweeps(&mut self, stream: &Stream) -> Result<()> {
        let plane = 8 * self.grids[0].layout.len() as u64;
        let (z, short) = (self.z(), self.short());
        let mut input = self.r;
        if !self.shape.schur {
            let copy = self.update(z, self.r, 0.0);
            if short {
                launch::narrow(stream, &copy)?
            } else {
                launch::direction(stream, &copy)?
            }
            self.projection.center(stream, z, short)?;
        } else if !self.projection.is_empty() {
            // q is not in use here.
            input = self.q;
            launch::direction(stream, &self.update(input, self.r, 0.0))?;
            self.projection.center(stream, input, false)?;
        }
        let black = [input.wrapping_add(2 * plane), input.wrapping_add(3 * plane)];
        self.run(stream, Part::Application, How::Nothing, black, 0)?;
        self.projection.center(stream, z, short)
    }

    /// The remainder that the host solves.
    pub fn solve_on_host(&mut self, stream: &Stream) -> Result<()> {
        if self.short() { self.solve_on_host_in::<f32>(stream) } else { self.solve_on_host_in::<f64>(stream) }
    }

    fn solve_on_host_in<R: Real + Pod>(&mut self, stream: &Stream) -> Result<()> {
        let (grid, layout, rest, unit) = (self.rest_grid, self.rest_layout, self.rest, self.unit);
        let Remainder::Host(natural) = &mut self.remainder else { return Ok(()) };
        let mut values: Vec<R> = zeroed(4 * layout.len(), "the remainder")?;
        stream.fetch(&mut values, rest.r)?;
        stream.wait()?;
        let place = |i: usize, j: usize| {
            let (colour, at) = place_in(&layout, i, j);
            colour as usize * layout.len() + at
        };
        for j in 0..grid.ny {
            let z = &mut natural.grids[0].z[ring_index(grid.nx, 0, j)..][..grid.nx];
            z.iter_mut().enumerate().for_each(|(i, z)| *z = unit * values[place(i, j)].wide());
        }
        natural.apply();
        for j in 0..grid.ny {
            let z = &natural.grids[0].z[ring_index(grid.nx, 0, j)..][..grid.nx];
            z.iter().enumerate().for_each(|(i, z)| values[place(i, j)] = R::narrow(*z));
        }
        stream.send(rest.z, &values)?;
        stream.wait()
    }

    /// One iteration of the plain steps.
    fn plain_iteration(&mut self, stream: &Stream, source: &Source, conditional: u64) -> Result<()> {
        let vector = UpdateArgs { scalars: self.scalars_at, ..self.update(self.r, self.q, 0.0) };
        launch::add_scaled(stream, &UpdateArgs { partial: self.norm_partial, ..vector })?;
        self.sweeps(stream)?;
        self.dot_z(stream, How::Loop, 0)?;
        let advance = UpdateArgs { target: self.p, other: self.x, source: self.z(), ..vector };
        if self.short() {
            launch::advance_short(stream, &advance)?
        } else {
            launch::advance(stream, &advance)?
        }
        self.multiply(stream, source, How::Loop, conditional)
    }

    /// q = A p with sigma, and the end of an iteration.
    fn multiply(&self, stream: &Stream, source: &Source, how: How, conditional: u64) -> Result<()> {
        if self.shape.schur {
            return launch::multiply_first(stream, &self.schur_args(how, conditional));
        }
        launch::multiply(stream, &ProductArgs { how: how as i32, conditional, ..product(self, source, self.p, self.q) })
    }

    /// From the r that is there: <r, r>, rho, p = z, q = A p, sigma.
    fn start(&mut self, stream: &Stream, source: &Source) -> Result<()> {
        if self.fused() {
            return self.run(stream, Part::Iteration, How::Start, [0; 2], 0);
        }
        self.dot_r(stream, offset_of!(Scalars, norm2))?;
        self.sweeps(stream)?;
        self.dot_z(stream, How::Nothing, offset_of!(Scalars, rho))?;
        self.direct(stream, 0.0)?;
        self.multiply(stream, source, How::Start, 0)
    }

    /// r = b - A x and its norm; `how`: Loop, unless the loop goes on.
    fn residual(&self, stream: &Stream, source: &Source, how: How) -> Result<()> {
        if self.shape.schur {
            launch::residual_first(stream, &self.schur_args(how, 0))
        } else {
            launch::residual(stream, &ProductArgs { how: how as i32, ..product(self, source, self.x, self.r) })
        }
    }

    /// Red values of x, where CG runs on S1, and max |x| to the scalars, which hold zero there.
    fn back_substitute(&self, stream: &Stream) -> Result<()> {
        if self.shape.schur {
            return launch::back_substitute(stream, &self.reduce_args());
        }
        launch::largest(stream, &LargestArgs { g: self.grids[0].k.g, v: self.x, scalars: self.scalars_at })
    }

    fn reduce_args(&self) -> ReduceArgs {
        let r = [self.first.r_b1[0], self.first.r_b2];
        ReduceArgs { k: self.grids[0].k, b: self.b, x: self.x, r, scalars: self.scalars_at }
    }

    fn forget_largest(&self, stream: &Stream) -> Result<()> {
        stream.fill(self.scalars_at + offset_of!(Scalars, largest) as u64, 0, 8)
    }

    /// Records the loop, with bodies of several lengths, where it is not recorded yet. Arrays keep their places from
    /// one factorization to the next.
    pub fn record(&mut self, device: &Arc<Device>, source: &Source) -> Result<()> {
        let fused = self.fused();
        if matches!(self.remainder, Remainder::Host(_)) || self.recorded.as_ref().is_some_and(|r| r.fused == fused) {
            return Ok(());
        }
        self.recorded = None;
        if self.programs.whole(self) || without_graphs() {
            self.recorded = Some(Recorded { graphs: Vec::new(), fused });
            return Ok(());
        }
        let bodies = match (fused, self.ends_early()) {
            (false, _) => &BODIES[..1],
            (true, true) => &BODIES_SHORT[..],
            (true, false) => &BODIES[..],
        };
        let mut graphs = Vec::new();
        reserve(&mut graphs, bodies.len(), "recorded loops")?;
        for body in bodies {
            let graph = Loop::record(device, |stream, conditional| {
                if fused {
                    (0..*body).try_for_each(|_| self.run(stream, Part::Iteration, How::Loop, [0; 2], conditional))
                } else {
                    self.plain_iteration(stream, source, conditional)
                }
            })?;
            graphs.push((*body, graph));
        }
        self.recorded = Some(Recorded { graphs, fused });
        Ok(())
    }

    /// The recorded loop for a solve like the last ones, that pauses after `most` iterations.
    fn best_graph(&self, most: usize) -> Option<&Loop> {
        let known = self.taken.into_iter().filter(|taken| *taken > 0).map(|taken| taken.min(most));
        let lost = |body: usize| known.clone().map(|taken| lost(body, taken)).sum::<usize>();
        self.recorded.as_ref()?.graphs.iter().min_by_key(|(body, _)| lost(*body)).map(|(_, graph)| graph)
    }
}

impl PcgSteps for Run<'_> {
    fn residual(&mut self) -> f64 {
        if let Some(norm2) = self.ready.norm2.take() {
            return norm2;
        }
        self.ready = Ready::default();
        self.start(|s| s.k.residual(s.stream, s.source, How::Nothing))
    }

    fn residual_from_rhs(&mut self) -> f64 {
        let ready = std::mem::take(&mut self.ready);
        if let (true, Some(start)) = (ready.r_is_rhs, ready.start) {
            self.ready = ready;
            return start.norm2;
        }
        let norm2 = self.start(|s| {
            if ready.r_is_rhs {
                return Ok(());
            }
            launch::direction(s.stream, &s.k.update(s.k.r, s.k.b, 0.0))?;
            s.stream.fill(s.k.scalars_at + offset_of!(Scalars, parity) as u64, 0, 4)
        });
        self.ready.r_is_rhs = true;
        norm2
    }

    fn residual_norm2(&mut self) -> f64 {
        match self.ready.start {
            Some(start) => start.norm2,
            None => self.scalar(|s| s.dot_r()),
        }
    }

    fn precondition(&mut self) -> f64 {
        if let Some(Start { rho, .. }) = self.ready.start {
            self.ready.z_is_p = true;
            return rho;
        }
        self.scalar(|s| {
            s.k.sweeps(s.stream)?;
            s.k.dot_z(s.stream, How::Nothing, offset_of!(Scalars, sum))?;
            Ok(s.fetch()?.sum)
        })
    }

    fn first_direction(&mut self) {
        if !self.ready.z_is_p {
            self.step(|s| s.k.direct(s.stream, 0.0));
        }
    }

    fn next_direction(&mut self, beta: f64) {
        self.step(|s| s.k.direct(s.stream, beta));
    }

    fn multiply(&mut self) -> f64 {
        self.scalar(|s| {
            s.k.multiply(s.stream, s.source, How::Start, 0)?;
            Ok(s.fetch()?.sigma)
        })
    }

    fn advance_solution(&mut self, alpha: f64) {
        self.step(|s| launch::add_scaled(s.stream, &s.k.update(s.k.x, s.k.p, alpha)));
    }

    fn advance_residual(&mut self, alpha: f64) {
        self.step(|s| launch::add_scaled(s.stream, &s.k.update(s.k.r, s.k.q, -alpha)));
    }

    fn direction_norm2(&mut self, factor: f64) -> f64 {
        self.scalar(|s| {
            let mut p = s.k.p;
            if s.k.fused() {
                // Of the two that are written in turn the last one; black planes are the third and the fourth.
                let plane = 8 * s.k.grids[0].layout.len() as u64;
                p = s.k.first.p[0][s.k.scalars.direction as usize].wrapping_sub(2 * plane);
            }
            launch::direction(s.stream, &UpdateArgs { per_unit: factor, ..s.k.update(s.k.q, p, 0.0) })?;
            launch::dot(s.stream, &s.k.dot_args(s.k.q, s.k.q, s.k.system(), offset_of!(Scalars, sum)))?;
            Ok(s.fetch()?.sum)
        })
    }

    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        if let (None, Some(start)) = (alpha, self.ready.start) {
            return start.norm2;
        }
        self.ready = Ready::default();
        if alpha.is_none() && self.k.recorded.is_some() {
            return self.start(|_| Ok(()));
        }
        self.textbook_descend(alpha)
    }

    fn preconditioned_square(&mut self) -> f64 {
        match self.ready.start {
            Some(start) => start.rho,
            None => self.precondition(),
        }
    }

    fn ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        match self.ready.start.take() {
            Some(start) => start.sigma,
            None => self.textbook_ascend(step),
        }
    }

    fn iterate(&mut self, test: &LoopTest) -> Option<LoopEnd> {
        self.k.recorded.as_ref().filter(|_| self.ahead)?;
        self.attempt(|s| s.run_loop(test))
    }

    fn observe(&mut self, iteration: usize, relative_residual: f64) -> bool {
        self.observer.iteration(iteration, relative_residual)
    }

    fn record(&mut self, alpha: f64, beta: f64) {
        self.observer.coefficients(alpha, beta);
    }
}

impl Run<'_> {
    /// Makes r, and what follows it at a start. Returns <r, r>.
    fn start(&mut self, make: impl FnOnce(&mut Self) -> Result<()>) -> f64 {
        self.under_way = None;
        self.scalar(|s| {
            make(s)?;
            if s.k.recorded.is_none() || !s.ahead {
                return s.dot_r();
            }
            s.k.start(s.stream, s.source)?;
            let &Scalars { norm2, rho, sigma, .. } = s.fetch()?;
            s.ready.start = Some(Start { norm2, rho, sigma });
            Ok(norm2)
        })
    }

    /// Sends the first part of the scalars.
    fn send_scalars(&self) -> Result<()> {
        self.stream.send_start(self.k.scalars_at, &self.k.scalars, offset_of!(Scalars, parity))
    }

    /// The loop where it is no graph: one kernel, or its iterations one by one.
    fn go_round(&mut self) -> Result<()> {
        let whole = self.k.programs.whole(self.k);
        loop {
            if self.k.fused() {
                self.k.run(self.stream, Part::Iteration, How::Loop, [0; 2], 0)?;
            } else {
                self.k.plain_iteration(self.stream, self.source, 0)?;
            }
            if whole || self.fetch()?.code != code::RUNNING {
                return Ok(());
            }
        }
    }

    /// Runs the recorded loop.
    fn run_loop(&mut self, test: &LoopTest) -> Result<LoopEnd> {
        let lag = self.lag();
        let terms = Terms::of(test, lag);
        let mut runs = self.is_under_way(&terms)?;
        terms.write(&mut self.k.scalars);
        let mut iterations = test.iterations;
        let mut stopped = false;
        self.ready = Ready::default();
        self.delivered = false;
        let joined = self.joined;
        let mut ends = self.end_args(Expected { scale: self.scale, guess: false }, How::Loop);
        let safe = self.criterion.is_some_and(|c| test.threshold > c.lost * self.scale);
        if !safe {
            ends.least = f64::INFINITY;
        }
        loop {
            if !std::mem::take(&mut runs) {
                let s = &mut *self.k.scalars;
                (s.code, s.done, s.met, s.ring_used) = (code::RUNNING, 0, 0, 0);
                s.pause_at = s.iteration + lag;
                self.send_scalars()?;
                match self.k.best_graph(lag as usize) {
                    Some(graph) => graph.launch(self.stream)?,
                    None => self.go_round()?,
                }
            }
            // What most often follows; if the loop goes on, x alone is touched, where it will be anew.
            let largest_is_zero = std::mem::take(&mut self.largest_is_zero);
            if test.confirms {
                self.k.residual(self.stream, self.source, How::Loop)?;
            } else if !largest_is_zero {
                self.k.forget_largest(self.stream)?;
            }
            if joined {
                if test.preconditioned {
                    launch::finish_eliminated(self.stream, &ends)?;
                    self.k.run(self.stream, Part::Down, How::Confirm, [0; 2], 0)?;
                } else {
                    launch::finish(self.stream, &ends)?;
                }
                if !self.stored {
                    launch::deliver(self.stream, &ends)?;
                }
            } else {
                self.k.back_substitute(self.stream)?;
            }
            let loads = !test.confirms && !joined && !test.preconditioned;
            if loads {
                let b = TransferArgs { guard: self.k.scalars_at, ..self.transfer(self.k.b, self.input, self.scale) };
                launch::load(self.stream, &b)?;
                launch::residual(self.stream, &ProductArgs { how: How::Loop as i32, ..self.product(self.k.x, 0) })?;
            }
            self.k.report(self.stream, FIRST_FETCH)?;
            self.stream.wait()?;
            self.queued = false;
            let used = self.k.scalars.ring_used as usize;
            if used > FIRST_FETCH {
                let bytes = offset_of!(Scalars, ring) + used * size_of::<Step>();
                self.stream.fetch_start(&mut self.k.scalars, self.k.scalars_at, bytes)?;
                self.stream.wait()?;
            }
            let (s, observer) = (&*self.k.scalars, &mut *self.observer);
            for (k, step) in s.ring[..used].iter().enumerate() {
                observer.coefficients(step.alpha, step.beta);
                iterations += 1;
                if s.code == code::RHO_NEGATIVE && k + 1 == used {
                    break;
                }
                let relative = step.norm / test.reference;
                if stopped {
                    observer.passed(iterations, relative);
                } else {
                    stopped = observer.iteration(iterations, relative);
                }
            }
            let largest = f64::from_bits(s.largest);
            self.largest_is_zero = joined && s.code == code::PAUSED;
            // Of a pause it is that of the recurred residual.
            self.ready.norm2 = (test.confirms && s.code != code::PAUSED).then_some(s.norm2);
            self.ready.rhs_loaded = loads && s.code == code::MET;
            let finished = joined && s.code != code::PAUSED;
            let square = if test.preconditioned { s.whole_norm2 + s.rho.abs() } else { s.whole_norm2 };
            let known = (self.ready.rhs_loaded || finished).then_some(square);
            if test.preconditioned {
                self.ready.whole_square = known;
            } else {
                self.ready.whole_norm2 = known;
            }
            self.ready.largest = (!joined || finished).then_some(largest);
            // As in rrb_deliver.
            let met = s.code == code::MET && square.sqrt() <= s.threshold;
            let fits = (ends.least..=ends.limit).contains(&largest);
            self.delivered = joined && !self.stored && (met || s.code == code::MAX_ITER) && fits;
            let norm = s.norm;
            let end = |ending| Ok(LoopEnd { iterations, norm, stopped, ending });
            let broke = |quantity, value| end(LoopEnding::Broken { quantity, value });
            if s.code != code::PAUSED {
                self.k.taken.rotate_right(1);
                self.k.taken[0] = iterations - test.iterations;
            }
            let s = &*self.k.scalars;
            return match s.code {
                code::PAUSED if !stopped => {
                    self.ready = Ready::default();
                    continue;
                }
                code::PAUSED | code::MAX_ITER => end(LoopEnding::Cut),
                code::MET => end(LoopEnding::Met),
                code::SPENT | code::SIGMA_VANISHED => end(LoopEnding::Spent),
                code::RHO_NEGATIVE | code::RHO_BAD => broke(SQUARE, s.sum),
                code::SIGMA_BAD => broke(ENERGY, s.sigma),
                other => Err(Error::Internal(format!("the loop on the device ended with code {other}"))),
            };
        }
    }

    /// Iterations between two looks of the host.
    fn lag(&self) -> i64 {
        if self.observer.may_stop() { MONITOR_LAG } else { RING as i64 }
    }

    /// Whether the loop has begun with these terms. If it has with others, all is as at the start again.
    fn is_under_way(&mut self, terms: &Terms) -> Result<bool> {
        match (self.under_way.take(), *self.expected) {
            (Some(known), _) if known == *terms => Ok(true),
            (Some(known), Some(with)) => {
                debug_assert!(false, "the device set out with {known:?}, the host with {terms:?}");
                self.criterion = None;
                self.begin(with)?;
                self.begun = None;
                Ok(false)
            }
            _ => Ok(false),
        }
    }

    /// After a start is launched: launches the loop too, which the device decides upon. Whether it may have begun; then
    /// the host is to wait for `started` alone.
    fn set_out(&mut self, with: Expected) -> Result<bool> {
        let lag = self.lag();
        let runs = self.k.programs.whole(self.k) || self.k.best_graph(lag as usize).is_some();
        // From a guess, the papers' norm is relative to one that has a start of its own.
        let known = self.criterion.filter(|c| !(c.preconditioned && with.guess) && runs);
        let Some(c) = known else { return Ok(false) };
        let arguments = SetOutArgs {
            scalars: self.k.scalars_at,
            found: self.k.scalars.on_device(),
            scale: with.scale,
            rel_tol: c.rel_tol,
            abs_tol: c.abs_tol * with.scale,
            futile: c.futile,
            vanishing: c.vanishing,
            baseless: c.baseless,
            max_iter: c.max_iter as i64,
            pause_at: lag,
            preconditioned: i32::from(c.preconditioned),
            of_initial: i32::from(c.of_initial),
            guess: i32::from(with.guess),
        };
        launch::set_out(self.stream, &arguments)?;
        self.k.started.note(self.stream)?;
        self.queued = true;
        match self.k.best_graph(lag as usize) {
            Some(graph) => graph.launch(self.stream)?,
            None => self.k.run(self.stream, Part::Iteration, How::Loop, [0; 2], 0)?,
        }
        Ok(true)
    }

    /// Whether a solve starts with `begin`: CG runs on S1 in fused stages, and the loop on the device.
    fn joins(&self) -> bool {
        self.solves && self.ahead && self.k.recorded.is_some() && self.k.fused()
    }

    fn end_args(&self, with: Expected, how: How) -> EndArgs {
        let ReduceArgs { k, b, x, r, scalars } = self.k.reduce_args();
        EndArgs {
            k,
            center: self.source.m.center,
            b,
            x,
            r,
            input: self.input.0,
            output: self.output.0,
            input_ld: self.input.1 as i64,
            output_ld: self.output.1 as i64,
            scale: with.scale,
            least: FAR_FROM_SUBNORMAL * with.scale,
            limit: f64::MAX * with.scale.min(1.0),
            guess: i32::from(with.guess),
            how: how as i32,
            partial: self.k.partial,
            whole_partial: self.k.norm_partial,
            scalars,
        }
    }

    /// From the caller's arrays to p and q of the start, scaled as the last solve was, or as is known now. Waits once.
    fn begin(&mut self, with: Expected) -> Result<()> {
        let arguments = self.end_args(with, How::Start);
        self.forget_inputs()?;
        if with.guess {
            launch::begin_at(self.stream, &arguments)?
        } else {
            launch::begin(self.stream, &arguments)?
        }
        self.largest_is_zero = true;
        self.k.start(self.stream, self.source)?;
        self.under_way = None;
        if self.set_out(with)? {
            self.k.started.wait()?;
            let s = &*self.k.scalars;
            self.under_way = (s.code == code::RUNNING).then(|| Terms::read(s));
        } else {
            self.fetch()?;
        }
        let &Scalars { b_norm2, whole_norm2, norm2, rho, sigma, .. } = &*self.k.scalars;
        self.begun = Some(Begun { with, b_norm2, whole_norm2, start: Start { norm2, rho, sigma } });
        Ok(())
    }

    /// What `load` does where starts are those of `begin`.
    fn load_joined(&mut self, with: Expected) -> f64 {
        *self.expected = Some(with);
        self.joined = true;
        self.scalar(|s| {
            let begun = match s.begun.take() {
                Some(begun) if begun.with == with => begun,
                other => {
                    let finite = |b: &Begun| {
                        let Start { norm2, rho, sigma } = b.start;
                        [b.b_norm2, norm2, rho, sigma].iter().all(|v| v.is_finite())
                    };
                    if other.is_some_and(|begun| !finite(&begun)) {
                        // Padding too may hold what came of another scale.
                        s.k.clear_vectors(s.stream)?;
                    }
                    s.begin(with)?;
                    s.begun.take().ok_or_else(|| Error::Internal("a start on the device is missing".to_owned()))?
                }
            };
            let start = Some(begun.start);
            s.ready = if with.guess {
                Ready {
                    whole_norm2: Some(begun.whole_norm2),
                    norm2: Some(begun.start.norm2),
                    start,
                    ..Ready::default()
                }
            } else {
                Ready { r_is_rhs: true, start, ..Ready::default() }
            };
            Ok(begun.b_norm2)
        })
    }

    /// Nothing was seen of the caller's arrays: `largest` and the two that follow it are zero.
    fn forget_inputs(&self) -> Result<()> {
        self.stream.fill(self.k.scalars_at + offset_of!(Scalars, largest) as u64, 0, 24)
    }

    /// Largest magnitudes of the caller's arrays, the first entry that is not finite, and <b, b>, to the scalars here.
    fn look(&mut self, guess: bool) -> Result<()> {
        let grid = self.source.shape.grid;
        self.forget_inputs()?;
        let look = |input: (Address, usize), output: Address| InspectArgs {
            input: input.0,
            output,
            ld: input.1 as i64,
            nx: grid.nx as i32,
            rows: grid.ny as i32,
            first_row: 0,
            scalars: self.k.scalars_at,
            partial: self.k.partial,
        };
        if self.input.1 != self.output.1 {
            // One on the host, one on the device with rows further apart: one after the other.
            let other = if guess { self.output } else { self.input };
            launch::inspect(self.stream, &look(self.input, 0))?;
            if guess {
                launch::inspect(self.stream, &InspectArgs { input: 0, partial: 0, ..look(other, self.output.0) })?;
            }
        } else {
            launch::inspect(self.stream, &look(self.input, if guess { self.output.0 } else { 0 }))?;
        }
        self.fetch().map(|_| ())
    }

    /// Zeros in four planes, their padding too, which sums go over: iterations that grow without bound leave something
    /// there.
    fn fill(&self, planes: Address) -> Result<()> {
        self.stream.fill(planes, 0, 32 * self.source.layout.len())
    }

    fn transfer(&self, colours: Address, (natural, ld): (Address, usize), scale: f64) -> TransferArgs {
        let rows = self.source.g.ny;
        TransferArgs { g: self.source.g, colours, natural, ld: ld as i64, first_row: 0, rows, scale, guard: 0 }
    }

    /// Copies what is on the host to its place on the device.
    fn send_arrays(&mut self, guess: bool) -> Result<()> {
        let (input_here, output_here) = (self.arrays.device_input == 0, guess && self.arrays.device_output == 0);
        if !input_here && !output_here {
            return Ok(());
        }
        let (nx, ny, ld) = (self.source.shape.grid.nx, self.source.shape.grid.ny, self.arrays.ld);
        self.k.watch.note(0, self.stream)?;
        let shape = (ld, nx, ny);
        let output = &*self.arrays.output;
        match (input_here, output_here) {
            (true, true) => {
                let input = Job::read(self.arrays.input, shape, self.input.0);
                self.copies.send(self.stream, &[input, Job::read(output, shape, self.output.0)])?;
            }
            (true, false) => self.copies.send(self.stream, &[Job::read(self.arrays.input, shape, self.input.0)])?,
            _ => self.copies.send(self.stream, &[Job::read(output, shape, self.output.0)])?,
        }
        self.k.watch.note(1, self.stream)?;
        self.sending = true;
        Ok(())
    }

    /// After a wait: how long the arrays were on their way.
    fn note_sent(&mut self) -> Result<()> {
        if std::mem::take(&mut self.sending) {
            self.seconds_transfer += self.k.watch.seconds()?;
        }
        Ok(())
    }

    /// Copies the output back to the host, if it is there, and waits until it is visible.
    fn fetch_output(&mut self) -> Result<()> {
        if self.arrays.device_output != 0 {
            return self.stream.wait();
        }
        let (nx, ny) = (self.source.shape.grid.nx, self.source.shape.grid.ny);
        let shape = (self.arrays.ld, nx, ny);
        self.stream.wait()?;
        // Threads copy too: by the host's clock.
        let start = Instant::now();
        self.copies.fetch(self.stream, &[Job::write(self.arrays.output, shape, self.output.0)])?;
        self.stream.wait()?;
        self.seconds_transfer += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// The value that is not finite, of the caller's arrays or of their copies.
    fn value(&self, (address, ld): (Address, usize), i: usize, j: usize) -> Result<f64> {
        let mut value = [0.0];
        self.stream.fetch(&mut value, address + 8 * (j * ld + i) as u64)?;
        self.stream.wait()?;
        Ok(value[0])
    }
}

impl RrbSteps for Run<'_> {
    fn time_grids(&mut self) {
        self.k.grid_seconds = vec![[0.0; 2]; self.k.grids.len() + 1];
    }

    fn grid_seconds(&self) -> &[[f64; 2]] {
        &self.k.grid_seconds
    }

    fn one_by_one(&mut self) {
        self.ahead = false;
    }

    fn finish(&mut self) {
        self.step(|s| s.stream.wait());
    }

    fn expect(&mut self, criterion: &Criterion) {
        self.criterion = Some(*criterion);
        // Only looked at, the guess has red values, too, which starts from there leave out.
        self.ahead &= criterion.max_iter > 0;
    }

    fn inspect(&mut self, guess: bool) -> Inputs {
        // Nobody else reads the guess.
        self.solves = guess;
        self.attempt(|s| {
            s.send_arrays(guess)?;
            let grid = s.source.shape.grid;
            let expected = s.expected.filter(|_| s.joins());
            if let Some(with) = expected {
                s.begin(with)?;
            } else {
                s.look(guess)?;
            }
            s.note_sent()?;
            let found = &*s.k.scalars;
            let largest = if expected.is_some() { found.sum.to_bits() } else { found.largest };
            let (largest_guess, key) = (found.largest_guess, !found.not_finite);
            let b_norm2 = SQUARES_FIT.contains(&f64::from_bits(largest)).then_some(found.b_norm2);
            s.ready.b_norm2 = b_norm2.filter(|_| expected.is_none());
            let not_finite = if key == u64::MAX {
                None
            } else {
                let nx = grid.nx as u64;
                let (i, line) = ((key % nx) as usize, key / nx);
                let j = (line / 2) as usize;
                let (name, array) = if line % 2 == 0 { (s.arrays.input_name, s.input) } else { ("x", s.output) };
                Some((name, s.value(array, i, j)?, i, j))
            };
            Ok(Inputs { rhs_max: f64::from_bits(largest), guess_max: f64::from_bits(largest_guess), not_finite })
        })
        .unwrap_or(Inputs { rhs_max: f64::NAN, ..Inputs::none() })
    }
    fn scale(&self, nearest: f64, guess: bool) -> f64 {
        let near = |with: &Expected| with.guess == guess && (nearest..=NEAR_SCALE * nearest).contains(&with.scale);
        self.begun.map(|begun| begun.with).filter(near).map_or(nearest, |with| with.scale)
    }

    fn load(&mut self, scale: f64, guess: bool) -> f64 {
        let known = std::mem::take(&mut self.ready).b_norm2;
        (self.scale, self.delivered) = (scale, false);
        if self.joins() {
            return self.load_joined(Expected { scale, guess });
        }
        self.joined = false;
        self.scalar(|s| {
            s.fill(s.k.b)?;
            launch::load(s.stream, &s.transfer(s.k.b, s.input, scale))?;
            if guess {
                s.fill(s.k.x)?;
                launch::load(s.stream, &s.transfer(s.k.x, s.output, scale))?;
                launch::residual(s.stream, &s.product(s.k.x, 0))?;
            } else {
                s.fill(s.k.x)?;
                if let Some(known) = known {
                    // The scale is a power of two.
                    return Ok(known * scale * scale);
                }
            }
            launch::dot(s.stream, &s.k.dot_args(s.k.b, s.k.b, (0, 4), offset_of!(Scalars, b_norm2)))?;
            let scalars = s.fetch()?;
            let (b_norm2, whole) = (scalars.b_norm2, scalars.whole_norm2);
            s.ready.whole_norm2 = guess.then_some(whole);
            Ok(b_norm2)
        })
    }

    fn eliminates(&self) -> bool {
        self.k.shape.schur
    }

    fn load_rhs(&mut self, scale: f64) {
        let ready = std::mem::take(&mut self.ready);
        if (ready.rhs_loaded || self.joined) && scale == self.scale {
            self.ready.whole_norm2 = ready.whole_norm2;
            return;
        }
        self.step(|s| {
            s.fill(s.k.b)?;
            launch::load(s.stream, &s.transfer(s.k.b, s.input, scale))
        });
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        self.attempt(|s| s.k.projection.worst(s.stream, s.k.b)).unwrap_or((0, f64::NAN, f64::NAN))
    }

    fn project_rhs(&mut self) {
        self.ready = Ready::default();
        self.step(|s| s.k.projection.shift(s.stream, Nodes::Whole, s.k.b, false));
    }

    fn keep_means(&mut self) {
        self.step(|s| s.k.projection.keep(s.stream, s.k.x));
    }

    fn rhs_norm2(&mut self) -> f64 {
        self.scalar(|s| s.dot_b())
    }

    fn whole_residual_norm2(&mut self) -> f64 {
        if let Some(known) = self.ready.whole_norm2.take() {
            return known;
        }
        self.scalar(|s| {
            if s.joined {
                launch::whole_residual(s.stream, &s.end_args(Expected { scale: s.scale, guess: true }, How::Nothing))?;
            } else {
                launch::residual(s.stream, &s.product(s.k.x, 0))?;
            }
            Ok(s.fetch()?.whole_norm2)
        })
    }

    fn rhs_to_residual(&mut self) -> f64 {
        self.ready = Ready::default();
        if !self.joined {
            return self.scalar(|s| {
                launch::rhs_to_residual(s.stream, &s.product(s.k.x, s.k.b))?;
                Ok(s.fetch()?.sum)
            });
        }
        // b in the planes stays; it goes on to r at once.
        let on_red = self.scalar(|s| {
            let arguments = s.end_args(Expected { scale: s.scale, guess: true }, How::Nothing);
            launch::eliminated_residual(s.stream, &arguments)?;
            Ok(s.fetch()?.whole_norm2)
        });
        self.ready.r_is_rhs = true;
        on_red
    }

    fn constant_square(&mut self) -> f64 {
        self.scalar(|s| s.k.projection.constant_square(s.stream, s.k.r, s.source.m.center))
    }

    fn returned_residual_square(&mut self, scale: f64) -> f64 {
        if let Some(known) = self.ready.whole_square.take() {
            return known;
        }
        self.load_rhs(scale);
        self.whole_residual_square()
    }

    fn reduce(&mut self) {
        if self.joined {
            // It is: b in the planes is that of S1, before the loop and after it.
            return;
        }
        self.ready = Ready::default();
        self.step(|s| {
            if s.k.shape.schur {
                launch::reduce(s.stream, &s.k.reduce_args())?;
                s.ready.r_is_rhs = true;
            }
            Ok(())
        });
    }

    fn reduce_again(&mut self) {
        if self.joined {
            return;
        }
        self.ready = Ready::default();
        self.step(|s| launch::reduce(s.stream, &ReduceArgs { r: [0; 2], ..s.k.reduce_args() }));
    }

    fn fall_back(&mut self) -> bool {
        self.ready = Ready::default();
        if !self.k.chose_recursion() {
            return false;
        }
        self.step(|s| {
            s.k.set_programs(s.stream, &Recursion::V)?;
            s.k.recorded = None;
            s.k.record(s.stream.device(), s.source)
        });
        true
    }

    fn take_z(&mut self) {
        let known = std::mem::take(&mut self.ready).z_is_p;
        self.step(|s| {
            if known { launch::direction(s.stream, &s.k.update(s.k.x, s.k.p, 0.0)) } else { s.k.take_z(s.stream) }
        });
    }

    fn back_substitute(&mut self) -> f64 {
        if let Some(largest) = self.ready.largest.take() {
            return largest;
        }
        self.delivered = false;
        self.scalar(|s| {
            s.largest_is_zero = false;
            s.k.forget_largest(s.stream)?;
            s.k.back_substitute(s.stream)?;
            Ok(f64::from_bits(s.fetch()?.largest))
        })
    }

    fn shift_means(&mut self, restore: bool) {
        self.ready = Ready::default();
        self.delivered = false;
        self.step(|s| s.k.projection.shift(s.stream, Nodes::Whole, s.k.x, restore));
    }

    fn clear_solution(&mut self) {
        // With x goes what the loop has made of it and the other vectors, if it has begun; from a guess r is made anew
        // after this.
        let began = self.under_way.take().is_some();
        self.delivered = false;
        self.step(|s| {
            if let Some(with) = s.expected.filter(|with| began && !with.guess) {
                s.criterion = None;
                s.begin(with)?;
                s.begun = None;
            }
            s.fill(s.k.x)
        });
    }

    fn solution_max(&mut self) -> f64 {
        self.scalar(|s| {
            s.largest_is_zero = false;
            s.k.forget_largest(s.stream)?;
            let (g, v, scalars) = (s.source.g, s.k.x, s.k.scalars_at);
            launch::largest(s.stream, &LargestArgs { g, v, scalars })?;
            Ok(f64::from_bits(s.fetch()?.largest))
        })
    }

    fn store(&mut self, scale: f64) {
        self.stored = true;
        let delivered = std::mem::take(&mut self.delivered) && scale == self.scale;
        if delivered && self.arrays.device_output != 0 {
            return;
        }
        self.step(|s| {
            if delivered {
                return s.fetch_output();
            }
            launch::store(s.stream, &s.transfer(s.k.x, s.output, scale.recip()))?;
            s.fetch_output()
        });
    }

    fn multiply_rhs(&mut self) {
        self.step(|s| launch::multiply(s.stream, &ProductArgs { partial: 0, ..s.product(s.k.b, s.k.x) }));
    }

    fn store_zero(&mut self) {
        self.clear_solution();
        self.store(1.0);
    }
}
