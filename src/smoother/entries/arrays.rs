//! Checks of the caller's patches and arrays before they are read, and the resident copies of u and f.

use crate::abi::spaces::{AddressRange, check_no_overlap, is_on_device, wrong_space};
use crate::base::machine::Core;
use crate::cuda::driver::{MemorySpace, memory_space_of};
use crate::error::{ArgumentName, Error, Location, RRB_ERR_DIMENSION, Result, collected, reserve, zeroed};
use crate::options::{Devices, Memory};
use crate::smoother::Smoother;
use crate::smoother::patches::Patch;
use crate::smoother::steps::{ArrayPointers, PatchArrays, ResidentArrays};

/// Arguments u, f and r of a call as the caller passed them: tables with one pointer per patch.
#[derive(Clone, Copy)]
pub struct CallerTables {
    pub u: *const *mut f64,
    /// `None` if the call has no argument f.
    pub f: Option<*const *const f64>,
    pub r: Option<*const *mut f64>,
}

/// Checked tables: each pointer points to the values of its patch.
pub struct CheckedArrays<'a> {
    pub patches: &'a [Patch],
    pub pointers: ArrayPointers<'a>,
    pub is_on_device: bool,
}

impl PatchArrays for CheckedArrays<'_> {
    fn u(&self, patch: usize) -> &[f64] {
        // SAFETY: checked to be non-NULL; the caller guarantees the size. No `&mut` to the array exists, because
        // `u_mut` borrows self mutably.
        unsafe { std::slice::from_raw_parts(self.pointers.u[patch], self.patches[patch].ghosted_cell_count()) }
    }

    fn u_mut(&mut self, patch: usize) -> &mut [f64] {
        // SAFETY: as above; checked to overlap no other array.
        unsafe { std::slice::from_raw_parts_mut(self.pointers.u[patch], self.patches[patch].ghosted_cell_count()) }
    }

    fn f(&self, patch: usize) -> &[f64] {
        // SAFETY: as for u.
        unsafe { std::slice::from_raw_parts(self.pointers.f[patch], self.patches[patch].cell_count()) }
    }

    fn r_mut(&mut self, patch: usize) -> Option<&mut [f64]> {
        let r = *self.pointers.r.get(patch)?;
        // SAFETY: as for u_mut.
        Some(unsafe { std::slice::from_raw_parts_mut(r, self.patches[patch].cell_count()) })
    }

    fn pointers(&self) -> ArrayPointers<'_> {
        self.pointers
    }

    fn is_on_device(&self) -> bool {
        self.is_on_device
    }
}

/// Checks the cells of a patch: each size is at least 1, all indices are within the range of i64, and the array of u,
/// with ghost cells, is not too large to address. Returns the patch.
pub fn check_patch(patch_index: usize, lower: [i64; 3], size: [i64; 3]) -> Result<Patch> {
    // With indices up to this limit, indices of neighbours do not overflow.
    const MAX_INDEX: u64 = 1 << 60;
    let mut value_count = 1usize;
    for d in 0..3 {
        let axis = ["x", "y", "z"][d];
        let patch_error = |text_before, text_after| {
            Err(Error::at(RRB_ERR_DIMENSION, text_before, Location::patch(patch_index), text_after))
        };
        let too_large_error = || patch_error("", format!(" has too many cells: its size in {axis} is {}", size[d]));
        if size[d] < 1 {
            return patch_error("the size of ", format!(" in {axis} must be at least 1, got {}", size[d]));
        }
        if lower[d].unsigned_abs() > MAX_INDEX {
            return patch_error("lower of ", format!(" in {axis} must lie in [-2^60, 2^60], got {}", lower[d]));
        }
        if size[d].unsigned_abs() > MAX_INDEX {
            return too_large_error();
        }
        match value_count.checked_mul(size[d] as usize + 2).filter(|&v| v <= isize::MAX as usize / 8) {
            Some(product) => value_count = product,
            None => return too_large_error(),
        }
    }
    Ok(Patch { lower, size: size.map(|n| n as usize) })
}

/// Checks that no pointer is NULL or misaligned, and that no written array overlaps another array. The call writes r,
/// and also u if `writes_u`.
pub fn check_arrays(
    patches: &[Patch],
    pointers: &ArrayPointers,
    writes_u: bool,
    address_ranges: &mut Vec<AddressRange>,
) -> Result<()> {
    address_ranges.clear();
    for (p, patch) in patches.iter().enumerate() {
        let mut add_range = |name, array: Option<*const f64>, len, is_written| -> Result<()> {
            if let Some(array) = array {
                address_ranges.push(AddressRange::new(ArgumentName::of_patch(name, p), array, len, is_written)?);
            }
            Ok(())
        };
        add_range("u", pointers.u.get(p).map(|u| u.cast_const()), patch.ghosted_cell_count(), writes_u)?;
        add_range("f", pointers.f.get(p).copied(), patch.cell_count(), false)?;
        add_range("r", pointers.r.get(p).map(|r| r.cast_const()), patch.cell_count(), true)?;
    }
    check_no_overlap(address_ranges)
}

/// Addresses of the arrays of the last call, and the memory space of these arrays. A call with the same addresses needs
/// no query of the driver.
#[derive(Default)]
pub struct CachedSpaces {
    addresses: Vec<usize>,
    memory: Memory,
    /// Whether the call used the resident copies.
    is_resident: bool,
    is_on_device: bool,
}

impl CachedSpaces {
    pub fn clear(&mut self) {
        self.addresses.clear();
    }
}

/// Returns whether the arrays of a call are on the handle's device. Returns an error if the arrays are partly on the
/// device and partly on the host. On a CPU backend, returns false without a query of the driver. On a device, this also
/// applies with `memory=host`, unless `uses_resident` is set. With `uses_resident` on a device, all arrays must be on
/// this device, where the resident copies are.
pub fn check_spaces(
    (device, memory): (Option<i32>, Memory),
    pointers: &ArrayPointers,
    uses_resident: bool,
    cache: &mut CachedSpaces,
) -> Result<bool> {
    let u = pointers.u.iter().map(|u| ("u", *u as usize));
    let f = pointers.f.iter().map(|f| ("f", *f as usize));
    let r = pointers.r.iter().map(|r| ("r", *r as usize));
    let count = pointers.u.len().max(pointers.f.len()).max(pointers.r.len());
    let all_arrays = || u.clone().chain(f.clone()).chain(r.clone());
    let Some(own_device) = device else { return Ok(false) };
    if memory == Memory::Host && !uses_resident {
        return Ok(false);
    }
    let is_cached =
        cache.memory == memory && cache.is_resident == uses_resident && cache.addresses.len() == all_arrays().count();
    if is_cached && all_arrays().zip(&cache.addresses).all(|(a, cached)| a.1 == *cached) {
        return Ok(cache.is_on_device);
    }
    cache.clear();
    let mut first_on_device = uses_resident.then_some(true);
    for (number, (name, address)) in all_arrays().enumerate() {
        let name = ArgumentName::of_patch(name, number % count.max(1));
        if uses_resident {
            let space = memory_space_of(address)?;
            if space != MemorySpace::Device(own_device) {
                let allowed = format!("on device {own_device}, where the patches of smoother_upload are");
                return Err(wrong_space(name, space, allowed));
            }
            continue;
        }
        let array_on_device = is_on_device(name, address, own_device.into(), Devices::default(), memory)?;
        if *first_on_device.get_or_insert(array_on_device) != array_on_device {
            let allowed = "in the memory space of the first patch's u, like all arrays of a call".to_owned();
            return Err(wrong_space(name, memory_space_of(address)?, allowed));
        }
    }
    reserve(&mut cache.addresses, all_arrays().count(), ADDRESS_ALLOCATION_NAME)?;
    cache.addresses.extend(all_arrays().map(|a| a.1));
    (cache.memory, cache.is_resident) = (memory, uses_resident);
    cache.is_on_device = first_on_device == Some(true);
    Ok(cache.is_on_device)
}

const RESIDENT_ALLOCATION_NAME: &str = "resident patches";
const ADDRESS_ALLOCATION_NAME: &str = "addresses of patches";

/// Resident copies of u and f, which `smoother_upload` creates on the device or on the host.
pub struct ResidentCopies {
    /// The arrays on the host; empty if the copies are on a device.
    arrays: Vec<Vec<f64>>,
    pub u: Vec<*mut f64>,
    pub f: Vec<*const f64>,
    pub f_mut: Vec<*mut f64>,
}

impl ResidentCopies {
    pub fn new(core: &mut Smoother) -> Result<Self> {
        let mut arrays: Vec<Vec<f64>> = Vec::new();
        let resident_arrays = if core.device().is_some() {
            core.allocate_resident_arrays()?
        } else {
            let patches = core.patches();
            reserve(&mut arrays, 2 * patches.len(), RESIDENT_ALLOCATION_NAME)?;
            for len in patches.iter().map(Patch::ghosted_cell_count).chain(patches.iter().map(Patch::cell_count)) {
                arrays.push(zeroed(len, RESIDENT_ALLOCATION_NAME)?);
            }
            let (u_arrays, f_arrays) = arrays.split_at_mut(patches.len());
            let pointers =
                |arrays: &mut [Vec<f64>]| collected(arrays.iter_mut().map(Vec::as_mut_ptr), ADDRESS_ALLOCATION_NAME);
            ResidentArrays { u: pointers(u_arrays)?, f: pointers(f_arrays)? }
        };
        let f = collected(resident_arrays.f.iter().map(|p| p.cast_const()), ADDRESS_ALLOCATION_NAME)?;
        Ok(Self { arrays, f, u: resident_arrays.u, f_mut: resident_arrays.f })
    }

    pub fn bytes(&self) -> usize {
        self.arrays.iter().map(|a| a.len() * size_of::<f64>()).sum()
    }
}

/// Copies arrays of patches. Each copy is (target, source, number of values). The addresses must be non-NULL and in a
/// memory space that the backend can access.
pub fn copy_between(core: &mut Smoother, copies: &[(*mut f64, *const f64, usize)]) -> Result<()> {
    if core.device().is_some() {
        return core.copy_arrays(copies);
    }
    for &(target, source, count) in copies {
        // SAFETY: the caller guarantees the sizes; the arrays are on the host. Source and target may be equal.
        unsafe { std::ptr::copy(source, target, count) };
    }
    Ok(())
}
