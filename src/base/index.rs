//! Integer types of indices, in the library and in the caller's arrays.

/// Index type of a stored matrix: 32 bits if there are fewer than 2^31 rows and columns, otherwise 64 bits.
pub trait Index: Copy + Default + Ord + std::fmt::Debug + Send + Sync + 'static {
    /// Converts an index that is in the range of this type.
    fn of(index: usize) -> Self;
    /// Returns the index as `usize`.
    fn to_usize(self) -> usize;
    /// Returns the indices if they have 32 bits, otherwise `None`.
    fn as_u32(indices: &[Self]) -> Option<&[u32]>;
}

impl Index for u32 {
    fn of(index: usize) -> Self {
        index as Self
    }

    fn to_usize(self) -> usize {
        self as usize
    }

    fn as_u32(indices: &[Self]) -> Option<&[u32]> {
        Some(indices)
    }
}

impl Index for u64 {
    fn of(index: usize) -> Self {
        index as Self
    }

    fn to_usize(self) -> usize {
        self as usize
    }

    fn as_u32(_: &[Self]) -> Option<&[u32]> {
        None
    }
}

/// Returns whether 32 bits suffice for the indices of a matrix of this size.
pub fn fits_u32(rows: usize, cols: usize) -> bool {
    rows.max(cols) < 1 << 31
}

/// An index array of the caller.
#[derive(Clone, Copy)]
pub enum Indices<'a> {
    Int32(&'a [i32]),
    Int64(&'a [i64]),
}

impl Indices<'_> {
    pub fn len(&self) -> usize {
        match self {
            Self::Int32(indices) => indices.len(),
            Self::Int64(indices) => indices.len(),
        }
    }

    pub fn get(&self, k: usize) -> i64 {
        match self {
            Self::Int32(indices) => indices[k].into(),
            Self::Int64(indices) => indices[k],
        }
    }

    /// Returns a hint for an error message about index `k` if the integers seem to have another width than the option
    /// `index_bytes` states. If the option states 4 bytes, this is the case if the second, fourth, ... integers are all
    /// zero, and the first, third, ... integers are not. If the option states 8 bytes, this is the case if integer `k`
    /// does not fit into 4 bytes.
    pub fn width_hint(&self, k: usize) -> &'static str {
        match self {
            Self::Int32(indices) => {
                let all_zero_from = |start: usize| indices.iter().skip(start).step_by(2).all(|&i| i == 0);
                if all_zero_from(1) && !all_zero_from(0) { " (or is index_bytes 8?)" } else { "" }
            }
            Self::Int64(indices) if i32::try_from(indices[k]).is_err() => " (or is index_bytes 4?)",
            Self::Int64(_) => "",
        }
    }
}
