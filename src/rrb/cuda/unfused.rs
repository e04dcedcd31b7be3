//! Unfused steps of a solve, with one or two kernels per step. These steps are used if stages are not fused
//! (`fusion=off`, 9 points, compensation, singular components, aggregation), or if only a single step is needed.

use super::packed::Packed;
use super::program::ProgramPart;
use super::source::Source;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, DotArgs, LargestArgs, ProductArgs, ReduceArgs, Scalars, Stage, UpdateArgs};
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
        scalars: k.scalars.address,
        stage: Stage::Nothing as i32,
        conditional: 0,
    }
}

impl Packed {
    /// Returns the arguments of a kernel that stores <a, b> at the byte offset `scalar_offset` of `Scalars`.
    pub fn dot_args(
        &self,
        a: Address,
        b: Address,
        (first_plane, plane_count): (i32, i32),
        scalar_offset: usize,
    ) -> DotArgs {
        DotArgs {
            g: self.grids[0].k.g,
            a,
            b,
            first_plane,
            plane_count,
            partial: self.partial,
            scalars: self.scalars.address,
            norm_partial: 0,
            norm_count: 0,
            stage: Stage::Nothing as i32,
            result: self.scalars.address + scalar_offset as u64,
            factor: 1.0,
        }
    }

    /// Returns the address of z on the first grid.
    pub fn z_address(&self) -> Address {
        self.grids[0].sweep.z
    }

    /// Computes <r, M^-1 r>, with z = storage_unit M^-1 r. With `stage` = `Nothing`, the kernel stores the result at
    /// the byte offset `scalar_offset` of `Scalars`. Otherwise, the kernel updates the CG scalars with this result.
    pub fn dot_z(&self, stream: &Stream, stage: Stage, scalar_offset: usize) -> Result<()> {
        let arguments = DotArgs {
            norm_partial: self.norm_partial,
            norm_count: (self.grids[0].k.g.blocks().count as usize * self.grids[0].k.g.part_count()) as i32,
            stage: stage as i32,
            factor: self.storage_unit.recip(),
            ..self.dot_args(self.r, self.z_address(), self.cg_planes(), scalar_offset)
        };
        if self.sweeps_in_f32() { launch::dot_f32(stream, &arguments) } else { launch::dot(stream, &arguments) }
    }

    /// Computes <r, r>, and stores it at the byte offset `scalar_offset` of `Scalars`.
    pub fn dot_r(&self, stream: &Stream, scalar_offset: usize) -> Result<()> {
        launch::dot(stream, &self.dot_args(self.r, self.r, self.cg_planes(), scalar_offset))
    }

    /// Computes <b, b> on all nodes, and stores it at the byte offset `scalar_offset` of `Scalars`.
    pub fn dot_b(&self, stream: &Stream, scalar_offset: usize) -> Result<()> {
        launch::dot(stream, &self.dot_args(self.b, self.b, (0, 4), scalar_offset))
    }

    /// Returns the arguments of a vector update for the unknowns of CG.
    pub fn update_args(&self, target: Address, source: Address, factor: f64) -> UpdateArgs {
        let (g, (first_plane, plane_count)) = (self.grids[0].k.g, self.cg_planes());
        UpdateArgs { g, first_plane, plane_count, target, x: 0, source, factor, per_unit: 1.0, partial: 0, scalars: 0 }
    }

    /// Computes target = M^-1 r + beta target from z = storage_unit M^-1 r.
    pub fn update_direction(&self, stream: &Stream, target: Address, beta: f64) -> Result<()> {
        let arguments =
            UpdateArgs { per_unit: self.storage_unit.recip(), ..self.update_args(target, self.z_address(), beta) };
        if self.sweeps_in_f32() {
            launch::update_direction_f32(stream, &arguments)
        } else {
            launch::update_direction(stream, &arguments)
        }
    }

    /// Computes z = P storage_unit M^-1 P r with unfused sweeps, where P subtracts the means over singular components.
    pub fn apply_unfused(&mut self, stream: &Stream) -> Result<()> {
        if self.aggregated.is_some() {
            return self.apply_aggregation(stream);
        }
        let plane = 8 * self.grids[0].k.g.plane as u64;
        let (z, is_single_precision) = (self.z_address(), self.sweeps_in_f32());
        let mut input = self.r;
        if !self.shape.uses_schur {
            let copy_args = self.update_args(z, self.r, 0.0);
            if is_single_precision {
                launch::round_to_f32(stream, &copy_args)?
            } else {
                launch::update_direction(stream, &copy_args)?
            }
            self.projection.subtract_means(stream, z, is_single_precision)?;
        } else if !self.projection.is_empty() {
            // q is not in use in this step.
            input = self.q;
            launch::update_direction(stream, &self.update_args(input, self.r, 0.0))?;
            self.projection.subtract_means(stream, input, false)?;
        }
        let black_planes = [input.wrapping_add(2 * plane), input.wrapping_add(3 * plane)];
        self.run(stream, ProgramPart::Application, Stage::Nothing, black_planes, 0)?;
        self.projection.subtract_means(stream, z, is_single_precision)
    }

    /// Computes z = P storage_unit M^-1 P r by aggregation, where P subtracts the means over singular components.
    fn apply_aggregation(&self, stream: &Stream) -> Result<()> {
        let Some(aggregated) = &self.aggregated else { return Ok(()) };
        let (z, mut input) = (self.z_address(), self.r);
        if !self.projection.is_empty() {
            // q is not in use in this step.
            input = self.q;
            launch::update_direction(stream, &self.update_args(input, self.r, 0.0))?;
            self.projection.subtract_means(stream, input, false)?;
        }
        aggregated.apply(stream, (input, z), self.storage_unit)?;
        self.projection.subtract_means(stream, z, self.sweeps_in_f32())
    }

    /// Launches one unfused iteration: r -= alpha q, z = M^-1 r, x += alpha p, p = z + beta p, q = A p.
    pub fn launch_unfused_iteration(&mut self, stream: &Stream, source: &Source, conditional: u64) -> Result<()> {
        let residual_update = UpdateArgs { scalars: self.scalars.address, ..self.update_args(self.r, self.q, 0.0) };
        launch::add_scaled(stream, &UpdateArgs { partial: self.norm_partial, ..residual_update })?;
        self.apply_unfused(stream)?;
        self.dot_z(stream, Stage::Loop, 0)?;
        let advance_args = UpdateArgs { target: self.p, x: self.x, source: self.z_address(), ..residual_update };
        if self.sweeps_in_f32() {
            launch::advance_f32(stream, &advance_args)?
        } else {
            launch::advance(stream, &advance_args)?
        }
        self.multiply(stream, source, Stage::Loop, conditional)
    }

    /// Computes q = A p and sigma = <p, q>. In a loop, also ends the iteration.
    pub fn multiply(&self, stream: &Stream, source: &Source, stage: Stage, conditional: u64) -> Result<()> {
        if self.shape.uses_schur {
            return launch::multiply_first(stream, &self.schur_args(stage, conditional));
        }
        launch::multiply(
            stream,
            &ProductArgs { stage: stage as i32, conditional, ..product_args(self, source, self.p, self.q) },
        )
    }

    /// Computes <r, r>, rho, p = z, q = A p and sigma from the current r.
    pub fn compute_start(&mut self, stream: &Stream, source: &Source) -> Result<()> {
        if self.uses_fusion() {
            return self.run(stream, ProgramPart::Iteration, Stage::Start, [0; 2], 0);
        }
        self.dot_r(stream, offset_of!(Scalars, norm2))?;
        self.apply_unfused(stream)?;
        self.dot_z(stream, Stage::Nothing, offset_of!(Scalars, rho))?;
        self.update_direction(stream, self.p, 0.0)?;
        self.multiply(stream, source, Stage::Start, 0)
    }

    /// Computes r = b - A x, or the residual of the system with S1 if CG runs on S1. Stores <r, r> in the scalar
    /// `norm2`. With `stage` = `Loop`, the kernel does nothing if the loop continues.
    pub fn residual(&self, stream: &Stream, source: &Source, stage: Stage) -> Result<()> {
        if self.shape.uses_schur {
            launch::residual_first(stream, &self.schur_args(stage, 0))
        } else {
            launch::residual(stream, &ProductArgs { stage: stage as i32, ..product_args(self, source, self.x, self.r) })
        }
    }

    /// If CG runs on S1, computes x on red nodes. Computes max |x|; the scalar `largest` must be zero on entry.
    pub fn back_substitute(&self, stream: &Stream) -> Result<()> {
        if self.shape.uses_schur {
            return launch::back_substitute(stream, &self.reduce_args());
        }
        launch::find_largest(stream, &LargestArgs { g: self.grids[0].k.g, v: self.x, scalars: self.scalars.address })
    }

    /// Returns the arguments of two kernels: one eliminates the red nodes, and one computes x on red nodes.
    pub fn reduce_args(&self) -> ReduceArgs {
        let (r_b1, r_b2) = (self.schur_arrays.r_b1[0], self.schur_arrays.r_b2);
        ReduceArgs { k: self.grids[0].k, b: self.b, x: self.x, r_b1, r_b2, scalars: self.scalars.address }
    }
}
