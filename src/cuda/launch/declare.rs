//! Size of a tile, and macros that declare kernels and their argument structures.

/// An address in device memory; 0 means no array.
pub type Address = u64;

/// Extents of a tile, and of its thread block, in x and y (kernels/rrb/storage.cuh).
pub const TILE: (u32, u32) = (32, 8);
pub const THREADS_PER_BLOCK: u32 = TILE.0 * TILE.1;

/// Defines structures that kernels receive. build.rs translates them from kernels/.
macro_rules! structures {
    ($($(#[doc = $doc:literal])* $name:ident { $($field:ident: $type:ty),* })*) => {
        $(
        $(#[doc = $doc])*
        #[repr(C)]
        #[allow(dead_code, reason = "kernels have fields and structures that only they use")]
        #[derive(Clone, Copy, Debug, bytemuck::AnyBitPattern)]
        pub struct $name { $(pub $field: $type),* }

        impl Default for $name {
            fn default() -> Self {
                bytemuck::Zeroable::zeroed()
            }
        }

        // SAFETY: the structure is `repr(C)`, and `AnyBitPattern` allows only fields that are numbers. Kernels read
        // fields, never the padding between or after them. The driver copies all bytes, as it does for a C structure.
        unsafe impl crate::cuda::driver::Argument for $name {}
        )*
    };
}

/// Defines structures without padding, for lists that the host sends and for array elements.
macro_rules! entries {
    ($($(#[doc = $doc:literal])* $name:ident { $($field:ident: $type:ty),* })*) => {
        $(
        $(#[doc = $doc])*
        #[repr(C)]
        #[allow(dead_code, reason = "kernels have fields and structures that only they use")]
        #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
        pub struct $name { $(pub $field: $type),* }

        impl Default for $name {
            fn default() -> Self {
                bytemuck::Zeroable::zeroed()
            }
        }
        )*
    };
}

/// Defines kernels with one number format, and a function per kernel that launches it. `$numbers` numbers the kernels
/// from `$first` on, and `$list` lists them in this order. After the argument structure, a kernel states its number of
/// blocks and its threads per block. Three clauses are optional. `or`: a second variant, for grids with uniform tiles
/// (kernels/rrb/uniform.cuh). `shared`: bytes of dynamic shared memory. `follows_kernel`: whether the kernel may begin
/// before the previous kernel ends.
macro_rules! plain_kernels {
    ($numbers:ident from $first:expr, in $list:ident:
     $($(#[doc = $doc:literal])* $number:ident
       $name:ident($arguments:ty $(, $extra:ident: $type:ty)*) = $symbol:literal, |$a:ident| $blocks:expr, $block:expr
       $(, or $uniform_number:ident = $uniform_symbol:literal in $uniform_grid:expr)? $(, shared $bytes:expr)?
       $(, follows_kernel $follows_kernel:expr)?;)*) => {
        enum $numbers { $($number, $($uniform_number,)?)* }

        /// The kernels, in the order of their numbers.
        pub(super) const $list: &[Kernel] =
            &[$(Kernel::of::<$arguments>($symbol), $(Kernel::of::<$arguments>($uniform_symbol),)?)*];

        $($(#[doc = $doc])*
        pub fn $name(stream: &Stream, $a: &$arguments $(, $extra: $type)*) -> Result<()> {
            let kernel = $numbers::$number;
            $(let kernel = if $uniform_grid.uniform != 0 { $numbers::$uniform_number } else { kernel };)?
            let (kernel, name) = ($first + kernel as usize, concat!("kernel ", $symbol));
            let (shared, follows_kernel) = (0 $(+ $bytes)?, false $(|| $follows_kernel)?);
            // SAFETY: `$arguments` is the structure that the kernel takes. Every address in it belongs to an array that
            // was allocated for the extents in the same structure, or to an array of the caller, who guarantees its
            // size.
            unsafe { stream.launch(kernel, $blocks, $block, shared, follows_kernel, $a, name) }
        })*
    };
}

/// Defines kernels with one variant for each of the three values of the enumeration `$storage`. `$s0`, `$s1` and `$s2`
/// are the suffixes of the names of the variants.
macro_rules! format_kernels {
    ($numbers:ident from $first:expr, in $list:ident, by $storage:ident $s0:literal $s1:literal $s2:literal:
     $($(#[doc = $doc:literal])* $number:ident $name:ident($arguments:ty) = $symbol:literal,
       |$a:ident, $s:ident| $blocks:expr, $block:expr
       $(, or $uniform_number:ident = $uniform_symbol:literal in $uniform_grid:expr)?;)*) => {
        enum $numbers { $($number, $($uniform_number,)?)* }

        /// The kernels, in the order of their numbers.
        pub(super) const $list: &[Kernel] = &[
            $(Kernel::of::<$arguments>(concat!($symbol, $s0)),
              Kernel::of::<$arguments>(concat!($symbol, $s1)),
              Kernel::of::<$arguments>(concat!($symbol, $s2)),
              $(Kernel::of::<$arguments>(concat!($uniform_symbol, $s0)),
                Kernel::of::<$arguments>(concat!($uniform_symbol, $s1)),
                Kernel::of::<$arguments>(concat!($uniform_symbol, $s2)),)?)*
        ];

        $($(#[doc = $doc])*
        pub fn $name(stream: &Stream, $s: $storage, $a: &$arguments) -> Result<()> {
            let kernel = $numbers::$number;
            $(let kernel = if $uniform_grid.uniform != 0 { $numbers::$uniform_number } else { kernel };)?
            let kernel = $first + 3 * kernel as usize + $s as usize;
            // SAFETY: as in `plain_kernels`; the arrays were allocated for this format.
            unsafe { stream.launch(kernel, $blocks, $block, 0, false, $a, concat!("kernel ", $symbol)) }
        })*
    };
}

/// Defines kernels with one variant in f64 and one in f32.
macro_rules! real_kernels {
    ($numbers:ident from $first:expr, in $list:ident:
     $($(#[doc = $doc:literal])* $number:ident $name:ident($arguments:ty) = $symbol:literal,
       |$a:ident| $blocks:expr $(, in $block:expr)?;)*) => {
        enum $numbers { $($number,)* }

        /// The kernels, in the order of their numbers.
        pub(super) const $list: &[Kernel] = &[
            $(Kernel::of::<$arguments>(concat!($symbol, "_f64")), Kernel::of::<$arguments>(concat!($symbol, "_f32")),)*
        ];

        $($(#[doc = $doc])*
        pub fn $name(stream: &Stream, single: bool, $a: &$arguments) -> Result<()> {
            let kernel = $first + 2 * $numbers::$number as usize + usize::from(single);
            let block = [BLOCK_SIZE $(, $block)?];
            // SAFETY: as in `plain_kernels`; the arrays were allocated for these numbers.
            unsafe { stream.launch(kernel, $blocks, block[block.len() - 1], 0, false, $a, concat!("kernel ", $symbol)) }
        })*
    };
}

/// Defines cooperative kernels in three formats. All their blocks are resident at the same time, so grid-wide barriers
/// are possible.
macro_rules! cooperative_kernels {
    ($numbers:ident from $first:expr, in $list:ident:
     $($(#[doc = $doc:literal])* $number:ident $name:ident($arguments:ty) = $symbol:literal;)*) => {
        enum $numbers { $($number,)* }

        /// The kernels, in the order of their numbers.
        pub(super) const $list: &[Kernel] = &[
            $(Kernel::of::<$arguments>(concat!($symbol, "_f64")),
              Kernel::of::<$arguments>(concat!($symbol, "_f32")),
              Kernel::of::<$arguments>(concat!($symbol, "_bf16")),)*
        ];

        $($(#[doc = $doc])*
        pub fn $name(stream: &Stream, storage: Storage, cooperative: CooperativeLaunch, a: &$arguments) -> Result<()> {
            let kernel = $first + 3 * $numbers::$number as usize + storage as usize;
            let name = concat!("kernel ", $symbol);
            // SAFETY: as in `plain_kernels`; all blocks run at once (`Stream::launch_cooperative`).
            unsafe { stream.launch_cooperative(kernel, cooperative, (CLUSTER_THREADS, 1), a, name) }
        })*

        /// Returns the numbers of the cooperative kernels in this format.
        pub fn cooperative_kernels(storage: Storage) -> [usize; $list.len() / 3] {
            [$($first + 3 * $numbers::$number as usize + storage as usize),*]
        }
    };
}
