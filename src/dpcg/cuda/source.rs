//! The matrix A in device memory.

use crate::cuda::arrays::{PaddedArrays, box_of};
use crate::cuda::call::{array_on_device, push_host_to_device_jobs};
use crate::cuda::driver::Stream;
use crate::cuda::launch::{Address, CellArray, CellBox, CellMatrix};
use crate::cuda::staging::StagedCopies;
use crate::error::{Error, Result};
use crate::stencil::cells::{CellView, Cells, StoredMatrix};

/// Largest number of cells. Cell indices have 31 bits, because one bit of 32 is used for marks.
const MAX_CELLS: usize = 1 << 31;

/// Returns an error if a direction has more than 2^31 - 1 cells, or if cell indices do not fit into 31 bits.
fn check_index_range(extents: Cells) -> Result<()> {
    if extents.size().iter().all(|&n| i32::try_from(n).is_ok()) && extents.count() <= MAX_CELLS {
        return Ok(());
    }
    Err(Error::Dimension("a device supports at most 2^31 cells, and 2^31 - 1 per direction".to_owned()))
}

/// The matrix A, with a plane of zeros before and after each array.
pub struct DeviceMatrix {
    pub extents: Cells,
    /// `extents` in the type of kernel arguments.
    pub cells: CellBox,
    pub m: CellMatrix,
    arrays: PaddedArrays,
}

impl DeviceMatrix {
    /// Allocates the memory of a matrix.
    pub fn new(stream: &Stream, extents: Cells) -> Result<Self> {
        check_index_range(extents)?;
        let arrays = PaddedArrays::zeroed(stream, 4, extents.count(), extents.plane(), size_of::<f64>(), "the matrix")?;
        let m = CellMatrix { center: arrays.at(0), east: arrays.at(1), north: arrays.at(2), top: arrays.at(3) };
        Ok(Self { extents, cells: box_of(extents), m, arrays })
    }

    /// Returns the addresses of the arrays, center first.
    fn addresses(&self) -> [Address; 4] {
        [self.m.center, self.m.east, self.m.north, self.m.top]
    }

    /// Returns the addresses of the caller's arrays on the device, center first. An array in host memory is first
    /// copied to the corresponding array of this matrix, whose address is returned.
    pub fn device_arrays(&self, stream: &Stream, copies: &mut StagedCopies, a: &CellView) -> Result<[CellArray; 4]> {
        let [x, y, z] = a.forward;
        let mut device_arrays = [CellArray::default(); 4];
        let mut copy_jobs = Vec::new();
        for ((device_array, caller_array), own_address) in
            device_arrays.iter_mut().zip([a.center, x, y, z]).zip(self.addresses())
        {
            *device_array = array_on_device(
                caller_array.device_address().unwrap_or(0),
                own_address,
                self.extents,
                caller_array.ld_and_plane(),
            );
            if caller_array.device_address().is_none() {
                push_host_to_device_jobs(
                    &mut copy_jobs,
                    caller_array.values(),
                    self.extents,
                    caller_array.ld_and_plane(),
                    own_address,
                )?;
            }
        }
        copies.send(stream, &copy_jobs)?;
        if !copy_jobs.is_empty() {
            stream.wait()?;
        }
        Ok(device_arrays)
    }

    /// Copies the matrix to host memory.
    pub fn copy_to_host(&self, stream: &Stream) -> Result<StoredMatrix> {
        let mut matrix = StoredMatrix::default();
        for (values, address) in matrix.rows_mut(self.extents)?.arrays().into_iter().zip(self.addresses()) {
            stream.fetch(values, address)?;
        }
        stream.wait()?;
        Ok(matrix)
    }

    /// Returns the distance between the first values of two successive arrays, in values.
    pub fn array_stride(&self) -> usize {
        self.arrays.stride()
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        self.arrays.bytes()
    }
}
