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
use crate::smoother::block_inverse::BlockShape;
use crate::smoother::steps::{
    Callbacks, Inverse, Method, PatchArrays, PatchSystem, ResidentArrays, SmootherBackend, SmootherProgram,
    SweepParameters, SweepResult,
};
use data::{PatchData, choose_inverse_kind};
use lists::TILE_SIDE;
use run::Run;
use std::time::Instant;

/// The `cuda` backend of block smoothers.
pub struct Cuda {
    // Fields are dropped in this order: the device memory before the device.
    data: Option<PatchData>,
    inverses: Vec<Option<Memory>>,
    /// Whether the inverses are dense. Either all of them are dense, or none is.
    has_dense_inverses: bool,
    /// Whether the device can apply dense inverses to many blocks by one matrix-matrix product (`launch::allow_dense`).
    can_batch: bool,
    /// Addresses of the tables of all block shapes.
    tables: Memory,
    second_stream: Stream,
    session: Session,
}

const INVERSE_ALLOCATION_NAME: &str = "a block inverse";

/// Returns the index of a shape in a list of all 512 shapes.
fn shape_index([x, y, z]: BlockShape) -> usize {
    ((z - 1) * TILE_SIDE + y - 1) * TILE_SIDE + x - 1
}

/// Converts an index p in the packed dense inverse of a block of 8^3 cells (kernels/smoother/dense.cuh) to the index of
/// the same value in the inverse that is stored by rows. n = 512 is the number of rows.
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
        Self::with_session(Session::open(ordinal, &launch::SMOOTHER, threads)?)
    }

    /// Creates a backend for an open device.
    fn with_session(session: Session) -> Result<Self> {
        let device = &session.device;
        let second_stream = Stream::new(device)?;
        let device_guard = device.enter()?;
        let bytes = TILE_SIDE.pow(3) * size_of::<BlockTables>();
        let tables = Memory::zeroed(device, session.stream(), bytes, "tables of blocks")?;
        let can_batch = launch::allow_dense(device);
        drop(device_guard);
        let inverses = collected((0..TILE_SIDE.pow(3)).map(|_| None), INVERSE_ALLOCATION_NAME)?;
        Ok(Self { data: None, inverses, has_dense_inverses: false, can_batch, tables, second_stream, session })
    }
}

impl SmootherBackend for Cuda {
    fn has_inverse(&self, shape: BlockShape) -> bool {
        self.inverses[shape_index(shape)].is_some()
    }

    fn inverse_count(&self) -> usize {
        self.inverses.iter().flatten().count()
    }

    fn add_inverse(&mut self, shape: BlockShape, inverse: Inverse) -> Result<()> {
        let device = self.session.device.clone();
        let _device_guard = device.enter()?;
        let stream = self.session.stream();
        let n: usize = shape.iter().product();
        let (values, is_dense, is_scaled) = match inverse {
            // Dense inverses are stored by columns, so that threads of adjacent rows read adjacent values. For blocks
            // of 8^3 cells, a second copy follows, in the order in which the lanes of a warp read the inverse in the
            // matrix-matrix product.
            Inverse::Dense(rows) => {
                let mut values = collected((0..n * n).map(|q| rows[q % n * n + q / n]), INVERSE_ALLOCATION_NAME)?;
                if shape == [TILE_SIDE; 3] {
                    extend(&mut values, (0..n * n).map(|p| rows[packed_index(p, n)]), INVERSE_ALLOCATION_NAME)?;
                }
                (values, true, false)
            }
            Inverse::SineTransforms { reciprocals, scalings: None } => (reciprocals, false, false),
            Inverse::SineTransforms { reciprocals, scalings: Some((inverse_diagonal, diagonal)) } => {
                let all_values = reciprocals.into_iter().chain(inverse_diagonal).chain(diagonal);
                (collected(all_values, INVERSE_ALLOCATION_NAME)?, false, true)
            }
        };
        let memory = Memory::zeroed(&device, stream, 8 * values.len(), INVERSE_ALLOCATION_NAME)?;
        stream.send(memory.address, &values)?;
        let table_address = |table_number: usize, is_used: bool| {
            if is_used { memory.address + (8 * n * table_number) as u64 } else { 0 }
        };
        let tables = BlockTables {
            reciprocals: table_address(0, !is_dense),
            inverse_diagonal: table_address(1, is_scaled),
            diagonal: table_address(2, is_scaled),
            dense: table_address(0, is_dense),
            packed: table_address(n, is_dense && shape == [TILE_SIDE; 3]),
        };
        let index = shape_index(shape);
        stream.send(self.tables.address + (index * size_of::<BlockTables>()) as u64, &[tables])?;
        stream.wait()?;
        self.inverses[index] = Some(memory);
        self.has_dense_inverses = is_dense;
        Ok(())
    }

    fn set_patches(&mut self, patch_system: PatchSystem) -> Result<()> {
        if let Some(session) = self.session.reopen_after_reset()? {
            *self = Self::with_session(session)?;
        }
        let _device_guard = self.session.device.clone().enter()?;
        let previous = self.data.take();
        self.data = Some(PatchData::new(self.session.stream(), patch_system, previous)?);
        Ok(())
    }

    fn prepare(&mut self, parameters: &SweepParameters) -> Result<()> {
        let _device_guard = self.session.device.clone().enter()?;
        let Some(data) = &mut self.data else { return Ok(()) };
        let stream = self.session.stream();
        for partition in parameters.partitions {
            data.find_or_build_plan(
                stream,
                &partition,
                parameters,
                choose_inverse_kind(self.has_dense_inverses, self.can_batch, &partition),
            )?;
        }
        if parameters.method == Method::Jacobi
            && data.buffers.second_array.u.len() != data.patch_system.patch_list.patches.len()
        {
            let patch_list = data.patch_system.patch_list.clone();
            data.buffers.second_array.allocate(
                stream,
                &patch_list.patches,
                false,
                "the second array of block Jacobi",
            )?;
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
        parameters: &SweepParameters,
        program: SmootherProgram,
    ) -> Result<SweepResult> {
        let _device_guard = self.session.device.clone().enter()?;
        let (stream, copies, transfer_seconds) = self.session.stream_and_copies();
        let streams = [stream, &self.second_stream];
        let data = self.data.as_mut().ok_or_else(no_patches_error)?;
        let is_on_device = arrays.is_on_device();
        let mut run = Run {
            data,
            streams,
            copies,
            tables: self.tables.address,
            uses_transforms: !self.has_dense_inverses,
            can_batch: self.can_batch,
            arrays,
            is_on_device,
            callbacks,
            parameters,
            current_array: 0,
            requested_sweeps: 0,
            executed_ahead: 0,
            is_uploaded: is_on_device,
            is_downloaded: false,
            has_copied_ghosts: false,
            is_exchange_pending: false,
            has_written_faces: false,
            follows_kernel: false,
            seconds_transfer: 0.0,
            first_error: None,
        };
        let mut sweep_result = SweepResult::default();
        if let Err(error) = run.prepare_arrays() {
            run.first_error = Some(error);
        } else {
            sweep_result = program(&mut run, parameters);
        }
        let first_error = run.first_error.take();
        *transfer_seconds = run.seconds_transfer;
        // Waits for both streams, even after an error, because the caller's arrays must not be used after the return.
        let wait_result = streams[0].wait().and(streams[1].wait());
        first_error.map_or(wait_result.map(|()| sweep_result), Err)
    }

    fn allocate_resident_arrays(&mut self) -> Result<ResidentArrays> {
        let _device_guard = self.session.device.clone().enter()?;
        let data = self.data.as_mut().ok_or_else(no_patches_error)?;
        let patch_list = data.patch_system.patch_list.clone();
        let stream = self.session.stream();
        data.buffers.resident_arrays.allocate(stream, &patch_list.patches, true, "patches")?;
        stream.fill(data.buffers.resident_arrays.memory.address(), 0, data.buffers.resident_arrays.memory.bytes())?;
        stream.wait()?;
        let pointers =
            |addresses: &[Address]| collected(addresses.iter().map(|a| *a as *mut f64), "addresses of patches");
        Ok(ResidentArrays {
            u: pointers(&data.buffers.resident_arrays.u)?,
            f: pointers(&data.buffers.resident_arrays.f)?,
        })
    }

    fn copy_arrays(&mut self, copies: &[(*mut f64, *const f64, usize)]) -> Result<()> {
        let _device_guard = self.session.device.clone().enter()?;
        let stream = self.session.stream();
        let start = Instant::now();
        for &(target, source, count) in copies.iter().filter(|c| !std::ptr::eq(c.0, c.1)) {
            stream.copy_values(target as u64, source as u64, count)?;
        }
        stream.wait()?;
        self.session.seconds_transfer = start.elapsed().as_secs_f64();
        Ok(())
    }
}

impl Engine for Cuda {
    fn bytes(&self) -> [usize; 2] {
        let host_bytes = |d: &PatchData| {
            d.patch_system.patch_list.bytes() + d.buffers.host_patch_table.len() * size_of::<BlockPatch>()
        };
        let device_bytes = self.tables.bytes
            + self.inverses.iter().flatten().map(|m| m.bytes).sum::<usize>()
            + self.data.as_ref().map_or(0, PatchData::bytes);
        [self.data.as_ref().map_or(0, host_bytes) + self.session.bytes(), device_bytes]
    }

    fn seconds_transfer(&self) -> f64 {
        self.session.seconds_transfer
    }

    fn use_stream(&mut self, stream: usize) -> Result<()> {
        self.session.use_stream(stream)
    }
}
