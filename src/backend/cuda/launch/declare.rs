//! How kernels and what they take are declared; their tiles.

/// An address in device memory; 0: none.
pub type Address = u64;

/// Threads across and down a tile, and in a block: kernels/rrb/storage.cuh.
pub const TILE: (u32, u32) = (32, 8);
pub const THREADS: u32 = TILE.0 * TILE.1;

/// Structures that kernels take, fields in the order of kernels/.
macro_rules! structures {
    ($($(#[doc = $doc:literal])* $name:ident { $($field:ident: $type:ty),* })*) => {
        $(
        $(#[doc = $doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, AnyBitPattern)]
        pub struct $name { $(pub $field: $type),* }

        // SAFETY: `repr(C)`, and by `AnyBitPattern` of numbers alone. Kernels read fields, never bytes between or after
        // them; the driver copies all bytes, as it does from a structure of C.
        unsafe impl Argument for $name {}
        )*
    };
}

/// The same without a byte between fields, for lists that the host sends, and for arrays.
macro_rules! entries {
    ($($(#[doc = $doc:literal])* $name:ident { $($field:ident: $type:ty),* })*) => {
        $(
        $(#[doc = $doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
        pub struct $name { $(pub $field: $type),* }
        )*
    };
}

/// Kernels in one format, each over so many blocks of so many threads: their numbers from the first one's on, a list of
/// this order, and a function that launches each, with what the launch needs beside what the kernel takes. `or`: a
/// second form, for grids with tiles whose rows are the same.
macro_rules! plain_kernels {
    ($numbers:ident from $first:expr, in $list:ident:
     $($(#[doc = $doc:literal])* $number:ident
       $name:ident($arguments:ty $(, $extra:ident: $type:ty)*) = $symbol:literal, |$a:ident| $blocks:expr, $block:expr
       $(, or $other:ident = $osymbol:literal in $og:expr)? $(, shared $bytes:expr)? $(, behind $behind:expr)?;)*) => {
        enum $numbers { $($number, $($other,)?)* }

        /// The kernels, in the order of their numbers.
        pub(super) const $list: &[Kernel] =
            &[$(Kernel::of::<$arguments>($symbol), $(Kernel::of::<$arguments>($osymbol),)?)*];

        $($(#[doc = $doc])*
        pub fn $name(stream: &Stream, $a: &$arguments $(, $extra: $type)*) -> Result<()> {
            let kernel = $numbers::$number;
            $(let kernel = if $og.uniform != 0 { $numbers::$other } else { kernel };)?
            let (kernel, name) = ($first + kernel as usize, concat!("kernel ", $symbol));
            let (shared, behind) = (0 $(+ $bytes)?, false $(|| $behind)?);
            // SAFETY: this is the structure that the kernel takes; its addresses are those of arrays laid out for the
            // extents in it, or of the caller's arrays, whose size the caller promised.
            unsafe { stream.launch(kernel, $blocks, $block, shared, behind, $a, name) }
        })*
    };
}

/// The same with each kernel in three formats of M.
macro_rules! format_kernels {
    ($numbers:ident from $first:expr, in $list:ident:
     $($(#[doc = $doc:literal])* $number:ident $name:ident($arguments:ty) = $symbol:literal,
       |$a:ident, $s:ident| $blocks:expr, $block:expr $(, or $other:ident = $osymbol:literal in $og:expr)?;)*) => {
        enum $numbers { $($number, $($other,)?)* }

        /// The kernels, in the order of their numbers.
        pub(super) const $list: &[Kernel] = &[
            $(Kernel::of::<$arguments>(concat!($symbol, "_f64")),
              Kernel::of::<$arguments>(concat!($symbol, "_f32")),
              Kernel::of::<$arguments>(concat!($symbol, "_bf16")),
              $(Kernel::of::<$arguments>(concat!($osymbol, "_f64")),
                Kernel::of::<$arguments>(concat!($osymbol, "_f32")),
                Kernel::of::<$arguments>(concat!($osymbol, "_bf16")),)?)*
        ];

        $($(#[doc = $doc])*
        pub fn $name(stream: &Stream, $s: Storage, $a: &$arguments) -> Result<()> {
            let kernel = $numbers::$number;
            $(let kernel = if $og.uniform != 0 { $numbers::$other } else { kernel };)?
            let kernel = $first + 3 * kernel as usize + $s as usize;
            // SAFETY: as above; the arrays were laid out for this format.
            unsafe { stream.launch(kernel, $blocks, $block, 0, false, $a, concat!("kernel ", $symbol)) }
        })*
    };
}

/// The same with each kernel in f64 and in f32.
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
            let block = [BLOCK $(, $block)?];
            // SAFETY: as above; the arrays were laid out for these numbers.
            unsafe { stream.launch(kernel, $blocks, block[block.len() - 1], 0, false, $a, concat!("kernel ", $symbol)) }
        })*
    };
}

/// The same of cooperative kernels: all blocks run at once, with grid-wide barriers.
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
        pub fn $name(stream: &Stream, storage: Storage, together: Together, a: &$arguments) -> Result<()> {
            let kernel = $first + 3 * $numbers::$number as usize + storage as usize;
            // SAFETY: as above; all blocks run at once (`Stream::launch_together`).
            unsafe { stream.launch_together(kernel, together, (CLUSTER_THREADS, 1), a, concat!("kernel ", $symbol)) }
        })*

        /// Numbers of the cooperative kernels, in this format.
        pub fn cooperative_kernels(storage: Storage) -> [usize; $list.len() / 3] {
            [$($first + 3 * $numbers::$number as usize + storage as usize),*]
        }
    };
}
