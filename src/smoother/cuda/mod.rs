//! Block relaxation on a CUDA device. The kernels are in kernels/smoother/smoother.cu, which describes the tiles and
//! their order. `lists` builds the work lists, `data` holds the data on the device, and `run` executes a call.

mod data;
mod lists;
mod run;

use crate::base::engine::Engine;
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{Address, BlockPatch, BlockTables};
use crate::cuda::session::Session;
use crate::error::{Error, Result, collected, extend};
use crate::smoother::block_inverse::Shape;
use crate::smoother::steps::{
    Callbacks, Inverse, Method, PatchArrays, PatchSystem, ResidentArrays, SmootherBackend, SmootherProgram,
    SweepResult, Work,
};
use data::{Data, inverse_kind_of};
use lists::TILE_SIDE;
use run::Run;
use std::time::Instant;

/// The `cuda` backend of block smoothers.
pub struct Cuda {
    // Fields are dropped in this order: the device memory before the device.
    data: Option<Data>,
    inverses: Vec<Option<Memory>>,
    /// Whether the inverses are dense. Either all of them are dense, or none is.
    has_dense_inverses: bool,
    /// Whether the device can apply dense inverses to many blocks by one matrix-matrix product (`launch::allow_dense`).
    can_batch: bool,
    tables: Memory,
    second_stream: Stream,
    session: Session,
}

const INVERSE: &str = "a block inverse";

fn shape_index([x, y, z]: Shape) -> usize {
    ((z - 1) * TILE_SIDE + y - 1) * TILE_SIDE + x - 1
}

/// Returns where value number p of the packed dense inverse of a block of 8^3 cells is in the inverse stored by rows
/// (kernels/smoother/dense.cuh).
fn packed_index(p: usize, n: usize) -> usize {
    let (e, lane, h, m, w, q) = (p & 1, p >> 1 & 31, p >> 6 & 1, p >> 7 & 1, p >> 8 & 15, p >> 12);
    let (row, column) = (32 * w + 16 * m + lane / 4 + 8 * e, 8 * q + 2 * (lane % 4) + h);
    row * n + column
}

fn no_patches_error() -> Error {
    Error::Internal("there are no patches".to_owned())
}

impl Cuda {
    /// Opens the device with this ordinal. At most `threads` threads copy arrays in host memory.
    pub fn new(ordinal: i64, threads: usize) -> Result<Self> {
        Self::with(Session::open(ordinal, &launch::SMOOTHER, threads)?)
    }

    fn with(session: Session) -> Result<Self> {
        let device = &session.device;
        let second_stream = Stream::new(device)?;
        let entered = device.enter()?;
        let bytes = TILE_SIDE.pow(3) * size_of::<BlockTables>();
        let tables = Memory::zeroed(device, session.stream(), bytes, "tables of blocks")?;
        let can_batch = launch::allow_dense(device);
        drop(entered);
        let inverses = collected((0..TILE_SIDE.pow(3)).map(|_| None), INVERSE)?;
        Ok(Self { data: None, inverses, has_dense_inverses: false, can_batch, tables, second_stream, session })
    }
}

impl SmootherBackend for Cuda {
    fn has_inverse(&self, shape: Shape) -> bool {
        self.inverses[shape_index(shape)].is_some()
    }

    fn inverse_count(&self) -> usize {
        self.inverses.iter().flatten().count()
    }

    fn add_inverse(&mut self, shape: Shape, inverse: Inverse) -> Result<()> {
        let device = self.session.device.clone();
        let _entered = device.enter()?;
        let stream = self.session.stream();
        let n: usize = shape.iter().product();
        let (values, dense, scaled) = match inverse {
            // Dense inverses are stored by columns, so that threads of adjacent rows read adjacent values. For blocks
            // of 8^3 cells, a second copy follows in the order in which the lanes of the matrix product read it.
            Inverse::Dense(rows) => {
                let mut values = collected((0..n * n).map(|q| rows[q % n * n + q / n]), INVERSE)?;
                if shape == [TILE_SIDE; 3] {
                    extend(&mut values, (0..n * n).map(|p| rows[packed_index(p, n)]), INVERSE)?;
                }
                (values, true, false)
            }
            Inverse::SineTransforms { reciprocals, scalings: None } => (reciprocals, false, false),
            Inverse::SineTransforms { reciprocals, scalings: Some((before, after)) } => {
                let scaled = reciprocals.into_iter().chain(before).chain(after);
                (collected(scaled, INVERSE)?, false, true)
            }
        };
        let memory = Memory::zeroed(&device, stream, 8 * values.len(), INVERSE)?;
        stream.send(memory.address, &values)?;
        let at = |part: usize, exists: bool| if exists { memory.address + (8 * n * part) as u64 } else { 0 };
        let tables = BlockTables {
            reciprocals: at(0, !dense),
            before: at(1, scaled),
            after: at(2, scaled),
            dense: at(0, dense),
            packed: at(n, dense && shape == [TILE_SIDE; 3]),
        };
        let index = shape_index(shape);
        stream.send(self.tables.address + (index * size_of::<BlockTables>()) as u64, &[tables])?;
        stream.wait()?;
        self.inverses[index] = Some(memory);
        self.has_dense_inverses = dense;
        Ok(())
    }

    fn set_patches(&mut self, patch_system: PatchSystem) -> Result<()> {
        if let Some(session) = self.session.after_reset()? {
            *self = Self::with(session)?;
        }
        let _entered = self.session.device.clone().enter()?;
        let previous = self.data.take();
        self.data = Some(Data::new(self.session.stream(), patch_system, previous)?);
        Ok(())
    }

    fn prepare(&mut self, work: &Work) -> Result<()> {
        let _entered = self.session.device.clone().enter()?;
        let Some(data) = &mut self.data else { return Ok(()) };
        let stream = self.session.stream();
        for cut in work.cuts {
            data.plan(stream, &cut, work, inverse_kind_of(self.has_dense_inverses, self.can_batch, &cut))?;
        }
        if work.method == Method::Jacobi && data.buffers.second_array.u.len() != data.patch_system.list.patches.len() {
            let list = data.patch_system.list.clone();
            data.buffers.second_array.allocate(stream, &list.patches, false, "the second array of block Jacobi")?;
            stream.wait()?;
        }
        Ok(())
    }

    fn patch_system(&self) -> Option<&PatchSystem> {
        self.data.as_ref().map(|d| &d.patch_system)
    }

    fn run(
        &mut self,
        arrays: &mut dyn PatchArrays,
        callbacks: &mut dyn Callbacks,
        work: &Work,
        program: SmootherProgram,
    ) -> Result<SweepResult> {
        let _entered = self.session.device.clone().enter()?;
        let (stream, copies, seconds) = self.session.parts();
        let streams = [stream, &self.second_stream];
        let data = self.data.as_mut().ok_or_else(no_patches_error)?;
        let on_device = arrays.on_device();
        let mut run = Run {
            data,
            streams,
            copies,
            tables: self.tables.address,
            by_transforms: !self.has_dense_inverses,
            can_batch: self.can_batch,
            arrays,
            on_device,
            callbacks,
            work,
            current_array: 0,
            requested_sweeps: 0,
            executed_ahead: 0,
            uploaded: on_device,
            downloaded: false,
            ghosts_copied: false,
            exchange_pending: false,
            faces_written: false,
            follows_kernel: false,
            seconds_transfer: 0.0,
            failed: None,
        };
        let mut swept = SweepResult::default();
        if let Err(error) = run.begin() {
            run.failed = Some(error);
        } else {
            swept = program(&mut run, work);
        }
        let failed = run.failed.take();
        *seconds = run.seconds_transfer;
        // Waits for both streams, even after an error, because the caller's arrays must not be used after the return.
        let waited = streams[0].wait().and(streams[1].wait());
        failed.map_or(waited.map(|()| swept), Err)
    }

    fn allocate_resident_arrays(&mut self) -> Result<ResidentArrays> {
        let _entered = self.session.device.clone().enter()?;
        let data = self.data.as_mut().ok_or_else(no_patches_error)?;
        let list = data.patch_system.list.clone();
        let stream = self.session.stream();
        data.buffers.resident.allocate(stream, &list.patches, true, "patches")?;
        stream.fill(data.buffers.resident.memory.address(), 0, data.buffers.resident.memory.bytes())?;
        stream.wait()?;
        let pointers =
            |addresses: &[Address]| collected(addresses.iter().map(|a| *a as *mut f64), "addresses of patches");
        Ok(ResidentArrays { u: pointers(&data.buffers.resident.u)?, f: pointers(&data.buffers.resident.f)? })
    }

    fn copy(&mut self, copies: &[(*mut f64, *const f64, usize)]) -> Result<()> {
        let _entered = self.session.device.clone().enter()?;
        let stream = self.session.stream();
        let start = Instant::now();
        for &(to, from, count) in copies.iter().filter(|c| !std::ptr::eq(c.0, c.1)) {
            stream.copy_values(to as u64, from as u64, count)?;
        }
        stream.wait()?;
        self.session.seconds_transfer = start.elapsed().as_secs_f64();
        Ok(())
    }
}

impl Engine for Cuda {
    fn bytes(&self) -> [usize; 2] {
        let lists = |d: &Data| d.patch_system.list.bytes() + d.buffers.host_patch_table.len() * size_of::<BlockPatch>();
        let device = self.tables.bytes
            + self.inverses.iter().flatten().map(|m| m.bytes).sum::<usize>()
            + self.data.as_ref().map_or(0, Data::bytes);
        [self.data.as_ref().map_or(0, lists) + self.session.bytes(), device]
    }

    fn seconds_transfer(&self) -> f64 {
        self.session.seconds_transfer
    }

    fn use_stream(&mut self, stream: usize) -> Result<()> {
        self.session.use_stream(stream)
    }
}
