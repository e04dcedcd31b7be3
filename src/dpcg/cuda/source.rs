//! The matrix A in device memory.

use crate::cuda::arrays::{Padded, box_of};
use crate::cuda::call::{array_on_device, push_reads};
use crate::cuda::driver::Stream;
use crate::cuda::launch::{Address, CellArray, CellBox, CellMatrix};
use crate::cuda::staging::Copies;
use crate::error::{Error, Result};
use crate::stencil::cells::{CellView, Cells, StoredMatrix};

/// Largest number of cells. Cell indices have 31 bits, because one bit of 32 is used for marks.
const MOST_CELLS: usize = 1 << 31;

/// Returns an error if cell indices do not fit into 31 bits.
fn check_index_range(extents: Cells) -> Result<()> {
    if extents.size().iter().all(|&n| i32::try_from(n).is_ok()) && extents.count() <= MOST_CELLS {
        return Ok(());
    }
    Err(Error::Dimension("a device supports at most 2^31 cells, and 2^31 - 1 per direction".to_owned()))
}

/// The matrix A, with a plane of zeros before and after each array.
pub struct DeviceMatrix {
    pub extents: Cells,
    pub cells: CellBox,
    pub m: CellMatrix,
    arrays: Padded,
}

impl DeviceMatrix {
    /// Allocates the memory of a matrix.
    pub fn new(stream: &Stream, extents: Cells) -> Result<Self> {
        check_index_range(extents)?;
        let arrays = Padded::zeroed(stream, 4, extents.count(), extents.plane(), size_of::<f64>(), "the matrix")?;
        let m = CellMatrix { center: arrays.at(0), east: arrays.at(1), north: arrays.at(2), top: arrays.at(3) };
        Ok(Self { extents, cells: box_of(extents), m, arrays })
    }

    /// Returns the addresses of the arrays, center first.
    fn addresses(&self) -> [Address; 4] {
        [self.m.center, self.m.east, self.m.north, self.m.top]
    }

    /// Returns the addresses of the caller's arrays on the device, center first. Arrays in host memory are copied to
    /// the addresses of this matrix.
    pub fn device_arrays(&self, stream: &Stream, copies: &mut Copies, a: &CellView) -> Result<[CellArray; 4]> {
        let [x, y, z] = a.forward;
        let mut at = [CellArray::default(); 4];
        let mut jobs = Vec::new();
        for ((at, given), own) in at.iter_mut().zip([a.center, x, y, z]).zip(self.addresses()) {
            *at = array_on_device(given.device_address().unwrap_or(0), own, self.extents, given.shape());
            if given.device_address().is_none() {
                push_reads(&mut jobs, given.all(), self.extents, given.shape(), own)?;
            }
        }
        copies.send(stream, &jobs)?;
        if !jobs.is_empty() {
            stream.wait()?;
        }
        Ok(at)
    }

    /// Copies the matrix to host memory.
    pub fn copy_to_host(&self, stream: &Stream) -> Result<StoredMatrix> {
        let mut matrix = StoredMatrix::default();
        for (values, from) in matrix.rows_mut(self.extents)?.arrays().into_iter().zip(self.addresses()) {
            stream.fetch(values, from)?;
        }
        stream.wait()?;
        Ok(matrix)
    }

    /// Returns the number of values from one array to the next.
    pub fn stride(&self) -> usize {
        self.arrays.stride()
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        self.arrays.bytes()
    }
}
