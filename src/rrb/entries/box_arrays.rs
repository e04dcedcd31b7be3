//! Checks and staging of the caller's arrays for the boxes of a rank.

use crate::abi::spaces::{
    AddressRange, PrimaryContext, Rows, caller_list, check_array, check_no_overlap, check_on_host, ordinal_of,
};
use crate::distributed::box_transfer::{BoxInput, BoxOutput};
use crate::distributed::boxes::GridBox;
use crate::error::{Error, Result, collected, push, zeroed};
use crate::options::Memory;
use crate::stencil::levels::Grid;
use std::sync::Arc;

/// Name of the memory in error messages about failed allocations.
const BOXES_ALLOCATION: &str = "boxes of ranks";

/// An argument of a call, which consists of one array per box of this rank.
pub struct BoxArrays {
    pub name: &'static str,
    pub arrays: Vec<*mut f64>,
    /// Whether the call writes the arrays.
    pub is_written: bool,
}

impl BoxArrays {
    /// Reads a list with one array pointer for each of `count` boxes.
    ///
    /// # Safety
    /// The list must be NULL or hold `count` pointers.
    pub unsafe fn of_list(
        name: &'static str,
        array_pointers: *const *mut f64,
        count: usize,
        is_written: bool,
    ) -> Result<Self> {
        if count > 0 {
            check_array(name, array_pointers)?;
        }
        // SAFETY: guaranteed by the caller; not NULL if `count` > 0, as just checked.
        let arrays = unsafe { caller_list(name, (count > 0).then_some(array_pointers), count)? };
        Ok(Self { name, arrays: collected(arrays.iter().copied(), BOXES_ALLOCATION)?, is_written })
    }
}

/// Memory spaces in which the arrays of boxes may reside. Device memory is allowed if the system is solved on a device.
#[derive(Clone, Copy)]
pub struct MemorySpaces {
    /// Value of the option `memory`; `None` if only host memory is allowed.
    pub memory: Option<Memory>,
    /// CUDA stream of the caller. Work on this stream that writes the arrays may still be running.
    pub stream: usize,
}

impl MemorySpaces {
    /// Returns the ordinal of the device that stores an array; `None` for host memory.
    fn ordinal_of(&self, name: &'static str, address: usize) -> Result<Option<i32>> {
        self.memory.map_or(Ok(None), |memory| ordinal_of(name, address, memory))
    }
}

/// Layout of the array of one box. The array has (ny - 1) * ld + nx values.
#[derive(Clone, Copy)]
pub struct BoxLayout {
    grid: Grid,
    pub ld: usize,
}

impl BoxLayout {
    /// Checks the leading dimension of box `box_index`, and returns the layout of the box. Without `leading_dimension`,
    /// ld is nx.
    fn new(grid: Grid, leading_dimension: Option<i64>, box_index: usize) -> Result<Self> {
        let Grid { nx, ny } = grid;
        let ld = leading_dimension.unwrap_or(nx as i64);
        if ld < nx as i64 {
            return Err(Error::Argument(format!(
                "leading_dimensions[{box_index}] must be at least nx = {nx}, got {ld}"
            )));
        }
        let len = (ny as i64 - 1).checked_mul(ld).and_then(|n| n.checked_add(nx as i64));
        if len.is_none_or(|len| len > isize::MAX as i64 / size_of::<f64>() as i64) {
            return Err(Error::Dimension(format!("(ny - 1) * leading_dimensions[{box_index}] + nx overflows")));
        }
        Ok(Self { grid, ld: ld as usize })
    }

    fn len(&self) -> usize {
        (self.grid.ny - 1) * self.ld + self.grid.nx
    }

    /// Copies the values from the device array `array` to the host array `host` if `to_host` is set, otherwise from
    /// `host` to `array`. Waits until the copy has completed.
    ///
    /// # Safety
    /// Both arrays must hold the values of the box, and no other thread may use the array that is written.
    unsafe fn copy_rows(&self, context: &PrimaryContext, array: *mut f64, host: *mut f64, to_host: bool) -> Result<()> {
        let Grid { nx, ny } = self.grid;
        let (host, device) = (Rows { address: host as u64, ld: nx }, Rows { address: array as u64, ld: self.ld });
        let (target, source) = if to_host { (host, device) } else { (device, host) };
        // SAFETY: guaranteed by the caller; the copy has nx values in each of ny rows.
        unsafe { context.copy_rows(target, source, nx, ny)? };
        context.wait()
    }
}

/// All array arguments of a call.
pub struct CallArrays {
    pub boxes: Vec<BoxLayout>,
    pub arguments: Vec<BoxArrays>,
    spaces: MemorySpaces,
    /// For each argument, host copies of those arrays that reside on a device.
    host_copies: Vec<Vec<Option<Vec<f64>>>>,
}

impl CallArrays {
    /// Checks the arrays of a call: alignment, memory space, and no overlap of a written array with another array.
    pub fn new(boxes: &[GridBox], ld: &[i64], arguments: Vec<BoxArrays>, spaces: MemorySpaces) -> Result<Self> {
        let mut layouts = Vec::new();
        for (box_index, grid_box) in boxes.iter().enumerate() {
            push(
                &mut layouts,
                BoxLayout::new(grid_box.extents(), ld.get(box_index).copied(), box_index)?,
                BOXES_ALLOCATION,
            )?;
        }
        let mut address_ranges = Vec::new();
        for BoxArrays { name, arrays, is_written } in &arguments {
            for (&array, layout) in arrays.iter().zip(&layouts) {
                match spaces.memory {
                    None => check_on_host(*name, array as usize)?,
                    Some(_) => drop(spaces.ordinal_of(name, array as usize)?),
                }
                push(
                    &mut address_ranges,
                    AddressRange::new(*name, array, layout.len(), *is_written)?,
                    BOXES_ALLOCATION,
                )?;
            }
        }
        if arguments.iter().any(|argument| argument.is_written) {
            check_no_overlap(&mut address_ranges)?;
        }
        Ok(Self { boxes: layouts, arguments, spaces, host_copies: Vec::new() })
    }

    /// Returns the device that stores an array of an argument; `None` for an array in host memory.
    fn context_of(&self, argument: usize, array: *mut f64) -> Result<Option<Arc<PrimaryContext>>> {
        let ordinal = self.spaces.ordinal_of(self.arguments[argument].name, array as usize)?;
        ordinal.map(PrimaryContext::of).transpose()
    }

    /// Returns the same as `context_of`, after waiting for the work on the caller's stream.
    pub fn context_after_wait(&self, argument: usize, array: *mut f64) -> Result<Option<Arc<PrimaryContext>>> {
        let context = self.context_of(argument, array)?;
        context.iter().try_for_each(|context| context.wait_for_stream(self.spaces.stream))?;
        Ok(context)
    }

    /// Allocates host copies of all arrays that reside on devices. Copies the values of all inputs to the host and,
    /// with `needs_guess`, those of the output.
    ///
    /// # Safety
    /// The arrays must hold the values of their boxes.
    pub unsafe fn stage_arrays(&mut self, needs_guess: bool) -> Result<()> {
        for (argument_index, argument) in self.arguments.iter().enumerate() {
            let mut argument_copies = Vec::new();
            for (&array, layout) in argument.arrays.iter().zip(&self.boxes) {
                let Some(context) = self.context_after_wait(argument_index, array)? else {
                    push(&mut argument_copies, None, BOXES_ALLOCATION)?;
                    continue;
                };
                let mut values: Vec<f64> = zeroed(layout.grid.nodes(), BOXES_ALLOCATION)?;
                if needs_guess || !argument.is_written {
                    // SAFETY: guaranteed by the caller; the copy has one value per node.
                    unsafe { layout.copy_rows(&context, array, values.as_mut_ptr(), true)? };
                }
                push(&mut argument_copies, Some(values), BOXES_ALLOCATION)?;
            }
            push(&mut self.host_copies, argument_copies, BOXES_ALLOCATION)?;
        }
        Ok(())
    }

    /// Returns the values of all arguments of a call without outputs. Call `stage_arrays` first.
    ///
    /// # Safety
    /// The arrays must hold the values of their boxes while the result is in use.
    pub unsafe fn inputs(&self) -> Result<Vec<Vec<BoxInput<'_>>>> {
        let argument_copies = self.arguments.iter().zip(&self.host_copies);
        // SAFETY: guaranteed by the caller.
        argument_copies.map(|(argument, copies)| unsafe { inputs_of_argument(argument, &self.boxes, copies) }).collect()
    }

    /// Returns the values of the first argument, which is an input, and of the second argument, which is the output.
    /// Call `stage_arrays` first.
    ///
    /// # Safety
    /// The requirements of `inputs` hold, and no other thread may use the arrays of the second argument.
    pub unsafe fn input_and_output(&mut self) -> Result<(Vec<BoxInput<'_>>, Vec<BoxOutput<'_>>)> {
        let (input_copies, output_copies) = self.host_copies.split_at_mut(1);
        let mut output = Vec::new();
        for ((&array, layout), copy) in self.arguments[1].arrays.iter().zip(&self.boxes).zip(&mut output_copies[0]) {
            let box_output = match copy {
                Some(values) => BoxOutput { values, ld: layout.grid.nx },
                None => {
                    // SAFETY: as in `inputs`. `new` has checked that this array overlaps no other array.
                    let values = unsafe { std::slice::from_raw_parts_mut(array, layout.len()) };
                    BoxOutput { values, ld: layout.ld }
                }
            };
            push(&mut output, box_output, BOXES_ALLOCATION)?;
        }
        // SAFETY: guaranteed by the caller.
        Ok((unsafe { inputs_of_argument(&self.arguments[0], &self.boxes, &input_copies[0])? }, output))
    }

    /// For each output array that resides on a device, copies the values from the host copy to the device. The second
    /// argument is the output.
    ///
    /// # Safety
    /// As for `input_and_output`.
    pub unsafe fn write_back(&mut self) -> Result<()> {
        let mut output_copies = self.host_copies.pop().unwrap_or_default();
        for ((&array, layout), values) in self.arguments[1].arrays.iter().zip(&self.boxes).zip(&mut output_copies) {
            if let (Some(context), Some(values)) = (self.context_of(1, array)?, values) {
                // SAFETY: guaranteed by the caller; the copy has one value per node.
                unsafe { layout.copy_rows(&context, array, values.as_mut_ptr(), false)? };
            }
        }
        Ok(())
    }
}

/// # Safety
/// As for [`CallArrays::inputs`].
unsafe fn inputs_of_argument<'a>(
    argument: &BoxArrays,
    boxes: &[BoxLayout],
    host_copies: &'a [Option<Vec<f64>>],
) -> Result<Vec<BoxInput<'a>>> {
    let box_input = |((&array, layout), copy): ((&*mut f64, &BoxLayout), &'a Option<Vec<f64>>)| match copy {
        Some(values) => BoxInput { values, ld: layout.grid.nx },
        // SAFETY: not NULL, aligned and on the host, as checked; the caller guarantees the number of values.
        None => BoxInput { values: unsafe { std::slice::from_raw_parts(array, layout.len()) }, ld: layout.ld },
    };
    collected(argument.arrays.iter().zip(boxes).zip(host_copies).map(box_input), BOXES_ALLOCATION)
}
