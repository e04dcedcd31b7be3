//! Checks of the caller's patches and arrays before they are read, and the resident copies of u and f.

use crate::abi::spaces::{AddressRange, check_apart, on_device, wrong_space};
use crate::base::machine::Core;
use crate::cuda::driver::{Space, space_of};
use crate::error::{Error, Name, Place, RRB_ERR_DIMENSION, Result, collected, reserve, zeroed};
use crate::options::{Devices, Memory};
use crate::smoother::Smoother;
use crate::smoother::patches::Patch;
use crate::smoother::steps::{PatchArrays, Pointers, ResidentArrays};

/// Tables of a call as the caller passed them.
#[derive(Clone, Copy)]
pub struct Tables {
    pub u: *const *mut f64,
    /// `None` if the call has no argument f.
    pub f: Option<*const *const f64>,
    pub r: Option<*const *mut f64>,
}

/// Checked tables: each pointer points to the values of its patch.
pub struct CheckedArrays<'a> {
    pub patches: &'a [Patch],
    pub pointers: Pointers<'a>,
    pub on_device: bool,
}

impl PatchArrays for CheckedArrays<'_> {
    fn u(&self, patch: usize) -> &[f64] {
        // SAFETY: checked to be non-NULL; the caller guarantees the size. No `&mut` to the array exists, because
        // `u_mut` borrows self mutably.
        unsafe { std::slice::from_raw_parts(self.pointers.u[patch], self.patches[patch].ghosted_cells()) }
    }

    fn u_mut(&mut self, patch: usize) -> &mut [f64] {
        // SAFETY: as above; checked to overlap no other array.
        unsafe { std::slice::from_raw_parts_mut(self.pointers.u[patch], self.patches[patch].ghosted_cells()) }
    }

    fn f(&self, patch: usize) -> &[f64] {
        // SAFETY: as for u.
        unsafe { std::slice::from_raw_parts(self.pointers.f[patch], self.patches[patch].cells()) }
    }

    fn r_mut(&mut self, patch: usize) -> Option<&mut [f64]> {
        let r = *self.pointers.r.get(patch)?;
        // SAFETY: as for u_mut.
        Some(unsafe { std::slice::from_raw_parts_mut(r, self.patches[patch].cells()) })
    }

    fn pointers(&self) -> Pointers<'_> {
        self.pointers
    }

    fn on_device(&self) -> bool {
        self.on_device
    }
}

/// Checks the index range of patch p: sizes are at least 1, and ends and products do not overflow.
pub fn checked_patch(p: usize, lower: [i64; 3], size: [i64; 3]) -> Result<Patch> {
    // With indices up to this limit, indices of neighbours do not overflow.
    const FARTHEST: u64 = 1 << 60;
    let mut values = 1usize;
    for d in 0..3 {
        let axis = ["x", "y", "z"][d];
        let wrong = |before, after| Err(Error::at(RRB_ERR_DIMENSION, before, Place::patch(p), after));
        let too_large = || wrong("", format!(" has too many cells: its size in {axis} is {}", size[d]));
        if size[d] < 1 {
            return wrong("the size of ", format!(" in {axis} must be at least 1, got {}", size[d]));
        }
        if lower[d].unsigned_abs() > FARTHEST {
            return wrong("lower of ", format!(" in {axis} must lie in [-2^60, 2^60], got {}", lower[d]));
        }
        if size[d].unsigned_abs() > FARTHEST {
            return too_large();
        }
        match values.checked_mul(size[d] as usize + 2).filter(|&v| v <= isize::MAX as usize / 8) {
            Some(product) => values = product,
            None => return too_large(),
        }
    }
    Ok(Patch { lower, size: size.map(|n| n as usize) })
}

/// Checks that no pointer is NULL or misaligned, and that no written array overlaps another array. The call writes r,
/// and also u if `writes_u`.
pub fn check_arrays(
    patches: &[Patch],
    pointers: &Pointers,
    writes_u: bool,
    extents: &mut Vec<AddressRange>,
) -> Result<()> {
    extents.clear();
    for (p, patch) in patches.iter().enumerate() {
        let mut add = |name, array: Option<*const f64>, len, written| -> Result<()> {
            if let Some(array) = array {
                extents.push(AddressRange::new(Name::of_patch(name, p), array, len, written)?);
            }
            Ok(())
        };
        add("u", pointers.u.get(p).map(|u| u.cast_const()), patch.ghosted_cells(), writes_u)?;
        add("f", pointers.f.get(p).copied(), patch.cells(), false)?;
        add("r", pointers.r.get(p).map(|r| r.cast_const()), patch.cells(), true)?;
    }
    check_apart(extents)
}

/// Addresses of the last call, and their memory space. A call with the same addresses needs no query of the driver.
#[derive(Default)]
pub struct KnownSpaces {
    addresses: Vec<usize>,
    memory: Memory,
    resident: bool,
    on_device: bool,
}

impl KnownSpaces {
    pub fn clear(&mut self) {
        self.addresses.clear();
    }
}

/// Returns whether the arrays of a call are on the handle's device. A call whose arrays are partly on the device and
/// partly on the host is an error. On a CPU backend, and with `memory=host`, returns false without a query of the
/// driver. With `resident`, all arrays must be in the memory space of the resident copies.
pub fn check_spaces(
    (device, memory): (Option<i32>, Memory),
    pointers: &Pointers,
    resident: bool,
    known: &mut KnownSpaces,
) -> Result<bool> {
    let u = pointers.u.iter().map(|u| ("u", *u as usize));
    let f = pointers.f.iter().map(|f| ("f", *f as usize));
    let r = pointers.r.iter().map(|r| ("r", *r as usize));
    let count = pointers.u.len().max(pointers.f.len()).max(pointers.r.len());
    let all = || u.clone().chain(f.clone()).chain(r.clone());
    let Some(own) = device else { return Ok(false) };
    if memory == Memory::Host && !resident {
        return Ok(false);
    }
    let asked = known.memory == memory && known.resident == resident && known.addresses.len() == all().count();
    if asked && all().zip(&known.addresses).all(|(a, k)| a.1 == *k) {
        return Ok(known.on_device);
    }
    known.clear();
    let mut first = resident.then_some(true);
    for (number, (name, address)) in all().enumerate() {
        let name = Name::of_patch(name, number % count.max(1));
        if resident {
            let space = space_of(address)?;
            if space != Space::Device(own) {
                let allowed = format!("on device {own}, where the patches of smoother_upload are");
                return Err(wrong_space(name, space, allowed));
            }
            continue;
        }
        let there = on_device(name, address, own.into(), Devices::default(), memory)?;
        if *first.get_or_insert(there) != there {
            let allowed = "in the memory space of the first patch's u, like all arrays of a call".to_owned();
            return Err(wrong_space(name, space_of(address)?, allowed));
        }
    }
    reserve(&mut known.addresses, all().count(), ADDRESSES)?;
    known.addresses.extend(all().map(|a| a.1));
    (known.memory, known.resident) = (memory, resident);
    known.on_device = first == Some(true);
    Ok(known.on_device)
}

const RESIDENT: &str = "resident patches";
const ADDRESSES: &str = "addresses of patches";

/// Resident copies of u and f, on the device or on the host.
pub struct Resident {
    /// The arrays on the host; empty if the copies are on a device.
    arrays: Vec<Vec<f64>>,
    pub u: Vec<*mut f64>,
    pub f: Vec<*const f64>,
    pub f_mut: Vec<*mut f64>,
}

impl Resident {
    pub fn new(core: &mut Smoother) -> Result<Self> {
        let mut arrays: Vec<Vec<f64>> = Vec::new();
        let resident_arrays = if core.device().is_some() {
            core.allocate_resident_arrays()?
        } else {
            let patches = core.patches();
            reserve(&mut arrays, 2 * patches.len(), RESIDENT)?;
            for len in patches.iter().map(Patch::ghosted_cells).chain(patches.iter().map(Patch::cells)) {
                arrays.push(zeroed(len, RESIDENT)?);
            }
            let (u, f) = arrays.split_at_mut(patches.len());
            let pointers = |arrays: &mut [Vec<f64>]| collected(arrays.iter_mut().map(Vec::as_mut_ptr), ADDRESSES);
            ResidentArrays { u: pointers(u)?, f: pointers(f)? }
        };
        let f = collected(resident_arrays.f.iter().map(|p| p.cast_const()), ADDRESSES)?;
        Ok(Self { arrays, f, u: resident_arrays.u, f_mut: resident_arrays.f })
    }

    pub fn bytes(&self) -> usize {
        self.arrays.iter().map(|a| a.len() * size_of::<f64>()).sum()
    }
}

/// Copies arrays of patches, which must be non-NULL and in a memory space that the backend can access.
pub fn copy_all(core: &mut Smoother, copies: &[(*mut f64, *const f64, usize)]) -> Result<()> {
    if core.device().is_some() {
        return core.copy(copies);
    }
    for &(to, from, count) in copies {
        // SAFETY: the caller guarantees the sizes; the arrays are on the host. Source and destination may be equal.
        unsafe { std::ptr::copy(from, to, count) };
    }
    Ok(())
}
