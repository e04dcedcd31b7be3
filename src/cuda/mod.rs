//! Services that all methods share on a device.
//!
//! - `driver`: calls of the CUDA driver.
//! - `launch`: launches of the kernels in kernels/, which are compiled ahead of time into the library.
//! - `arrays`: allocation of arrays and lists.
//! - `layout`: layout of arrays in one allocation, which several devices may share.
//! - `labelled`: sums over the cells of each label.
//! - `staging`: copies of host arrays.
//! - `session`: the device, stream and copies that belong to a handle of any family.
//! - `call`: the caller's arrays in one call.
//! - `looped`: the PCG loop.
//! - `vectors`: steps on vectors that several families use.

pub mod arrays;
pub mod call;
pub mod driver;
pub mod labelled;
pub mod launch;
pub mod layout;
pub mod looped;
pub mod session;
pub mod staging;
pub mod vectors;
