//! Unfused steps of a solve, with one or two kernels per step. They are used if stages are not fused (`fusion=off`, 9
//! points, compensation, singular components, aggregation), or if only a single step is needed.

use super::packed::Packed;
use super::program::Part;
use super::source::Source;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, DotArgs, How, LargestArgs, ProductArgs, ReduceArgs, Scalars, UpdateArgs};
use crate::error::Result;
use std::mem::offset_of;

/// Returns the arguments of the kernels that compute A v or b - A v.
pub fn product_args(k: &Packed, source: &Source, v: Address, out: Address) -> ProductArgs {
    ProductArgs {
        g: source.g,
        m: source.m,
        nine_points: i32::from(source.shape.nine_points),
        v,
        b: k.b,
        out,
        partial: k.partial,
        scalars: k.scalars.at,
        how: How::Nothing as i32,
        conditional: 0,
    }
}

impl Packed {
    /// Returns the arguments of a kernel that stores <a, b> in the scalar at offset `to`.
    pub fn dot_args(&self, a: Address, b: Address, (first, count): (i32, i32), to: usize) -> DotArgs {
        DotArgs {
            g: self.grids[0].k.g,
            a,
            b,
            first,
            count,
            partial: self.partial,
            scalars: self.scalars.at,
            norm_partial: 0,
            norm_count: 0,
            how: How::Nothing as i32,
            to: self.scalars.at + to as u64,
            factor: 1.0,
        }
    }

    /// Returns the address of z on the first grid.
    pub fn z(&self) -> Address {
        self.grids[0].sweep.z
    }

    /// Computes <r, M^-1 r>, with z = unit M^-1 r. Outside a loop, the result is stored at offset `to` of the scalars.
    /// In a loop, the kernel updates the scalars.
    pub fn dot_z(&self, stream: &Stream, how: How, to: usize) -> Result<()> {
        let arguments = DotArgs {
            norm_partial: self.norm_partial,
            norm_count: (self.grids[0].k.g.blocks().count as usize * self.grids[0].k.g.parts()) as i32,
            how: how as i32,
            factor: self.unit.recip(),
            ..self.dot_args(self.r, self.z(), self.cg_planes(), to)
        };
        if self.short() { launch::dot_short(stream, &arguments) } else { launch::dot(stream, &arguments) }
    }

    /// Computes <r, r>, and stores it in the scalar at offset `to`.
    pub fn dot_r(&self, stream: &Stream, to: usize) -> Result<()> {
        launch::dot(stream, &self.dot_args(self.r, self.r, self.cg_planes(), to))
    }

    /// Computes <b, b> on all nodes, and stores it in the scalar at offset `to`.
    pub fn dot_b(&self, stream: &Stream, to: usize) -> Result<()> {
        launch::dot(stream, &self.dot_args(self.b, self.b, (0, 4), to))
    }

    /// Returns the arguments of a vector update for the unknowns of CG.
    pub fn update_args(&self, target: Address, source: Address, factor: f64) -> UpdateArgs {
        let (g, (first, count)) = (self.grids[0].k.g, self.cg_planes());
        UpdateArgs { g, first, count, target, other: 0, source, factor, per_unit: 1.0, partial: 0, scalars: 0 }
    }

    /// Computes target = M^-1 r + beta target from z = unit M^-1 r.
    pub fn update_direction(&self, stream: &Stream, target: Address, beta: f64) -> Result<()> {
        let arguments = UpdateArgs { per_unit: self.unit.recip(), ..self.update_args(target, self.z(), beta) };
        if self.short() { launch::direction_short(stream, &arguments) } else { launch::direction(stream, &arguments) }
    }

    /// Computes z = P unit M^-1 P r with unfused sweeps, where P subtracts the means over singular components.
    pub fn sweeps(&mut self, stream: &Stream) -> Result<()> {
        if self.aggregated.is_some() {
            return self.cycle_of_aggregation(stream);
        }
        let plane = 8 * self.grids[0].k.g.plane as u64;
        let (z, short) = (self.z(), self.short());
        let mut input = self.r;
        if !self.shape.schur {
            let copy = self.update_args(z, self.r, 0.0);
            if short {
                launch::narrow(stream, &copy)?
            } else {
                launch::direction(stream, &copy)?
            }
            self.projection.center(stream, z, short)?;
        } else if !self.projection.is_empty() {
            // q is not in use in this step.
            input = self.q;
            launch::direction(stream, &self.update_args(input, self.r, 0.0))?;
            self.projection.center(stream, input, false)?;
        }
        let black = [input.wrapping_add(2 * plane), input.wrapping_add(3 * plane)];
        self.run(stream, Part::Application, How::Nothing, black, 0)?;
        self.projection.center(stream, z, short)
    }

    /// Computes z = P unit M^-1 P r by aggregation, where P subtracts the means over singular components.
    fn cycle_of_aggregation(&self, stream: &Stream) -> Result<()> {
        let Some(aggregated) = &self.aggregated else { return Ok(()) };
        let (z, mut input) = (self.z(), self.r);
        if !self.projection.is_empty() {
            // q is not in use in this step.
            input = self.q;
            launch::direction(stream, &self.update_args(input, self.r, 0.0))?;
            self.projection.center(stream, input, false)?;
        }
        aggregated.apply(stream, (input, z), self.unit)?;
        self.projection.center(stream, z, self.short())
    }

    /// Launches one unfused iteration: r -= alpha q, z = M^-1 r, x += alpha p, p = z + beta p, q = A p.
    pub fn plain_iteration(&mut self, stream: &Stream, source: &Source, conditional: u64) -> Result<()> {
        let vector = UpdateArgs { scalars: self.scalars.at, ..self.update_args(self.r, self.q, 0.0) };
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

    /// Computes q = A p and sigma = <p, q>. In a loop, also ends the iteration.
    pub fn multiply(&self, stream: &Stream, source: &Source, how: How, conditional: u64) -> Result<()> {
        if self.shape.schur {
            return launch::multiply_first(stream, &self.schur_args(how, conditional));
        }
        launch::multiply(
            stream,
            &ProductArgs { how: how as i32, conditional, ..product_args(self, source, self.p, self.q) },
        )
    }

    /// Computes <r, r>, rho, p = z, q = A p and sigma from the current r.
    pub fn start(&mut self, stream: &Stream, source: &Source) -> Result<()> {
        if self.fused() {
            return self.run(stream, Part::Iteration, How::Start, [0; 2], 0);
        }
        self.dot_r(stream, offset_of!(Scalars, norm2))?;
        self.sweeps(stream)?;
        self.dot_z(stream, How::Nothing, offset_of!(Scalars, rho))?;
        self.update_direction(stream, self.p, 0.0)?;
        self.multiply(stream, source, How::Start, 0)
    }

    /// Computes r = b - A x, or the residual of S1 if CG runs on S1, and the scalar `norm2` = <r, r>. With `how` =
    /// `Loop`, the kernel does nothing if the loop continues.
    pub fn residual(&self, stream: &Stream, source: &Source, how: How) -> Result<()> {
        if self.shape.schur {
            launch::residual_first(stream, &self.schur_args(how, 0))
        } else {
            launch::residual(stream, &ProductArgs { how: how as i32, ..product_args(self, source, self.x, self.r) })
        }
    }

    /// If CG runs on S1, computes x on red nodes. Computes max |x|; the scalar `largest` must be zero on entry.
    pub fn back_substitute(&self, stream: &Stream) -> Result<()> {
        if self.shape.schur {
            return launch::back_substitute(stream, &self.reduce_args());
        }
        launch::largest(stream, &LargestArgs { g: self.grids[0].k.g, v: self.x, scalars: self.scalars.at })
    }

    /// Returns the arguments of the kernels that eliminate the red nodes and that compute x on them.
    pub fn reduce_args(&self) -> ReduceArgs {
        let (r_b1, r_b2) = (self.first.r_b1[0], self.first.r_b2);
        ReduceArgs { k: self.grids[0].k, b: self.b, x: self.x, r_b1, r_b2, scalars: self.scalars.at }
    }
}
