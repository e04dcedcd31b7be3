//! Reader of the systems that `benches/hard_suite.py` writes.
//!
//! A system consists of "STENCIL1"; dimension, nx, ny, nz, flags (bit 0: singular) and a zero as 32-bit integers; a
//! name of 16 characters; and center, east, north and b as doubles.

use crate::Stencil;

/// A system of the suite.
#[derive(Clone)]
pub struct System {
    /// Name in the suite.
    pub name: String,
    /// The matrix A.
    pub a: Stencil,
    /// The right-hand side b.
    pub b: Vec<f64>,
    /// Whether A is singular with the constants as null space.
    pub singular: bool,
}

const HEAD: usize = 48;

/// Parses a concatenation of files.
pub fn read(mut bytes: &[u8]) -> Result<Vec<System>, String> {
    let mut systems = Vec::new();
    while !bytes.is_empty() {
        let head =
            bytes.get(..HEAD).filter(|head| head.starts_with(b"STENCIL1")).ok_or("no system in two dimensions")?;
        let int = |k: usize| i32::from_le_bytes([0, 1, 2, 3].map(|byte| head[8 + 4 * k + byte]));
        let (nx, ny) = (int(1) as usize, int(2) as usize);
        if int(0) != 2 || nx == 0 || ny == 0 || nx > 1 << 16 || ny > 1 << 16 {
            return Err(format!("a system of {} dimensions, {nx} x {ny}", int(0)));
        }
        let n = nx * ny;
        let values = bytes.get(HEAD..HEAD + 32 * n).ok_or("a system that ends early")?;
        let all: Vec<f64> =
            values.chunks_exact(8).map(|value| f64::from_le_bytes(value.try_into().expect("eight bytes"))).collect();
        let [center, east, north, b] = [0, 1, 2, 3].map(|k| all[k * n..(k + 1) * n].to_vec());
        let name = String::from_utf8_lossy(&head[32..HEAD]).trim_end_matches('\0').to_owned();
        let a = Stencil { nx, ny, center, east, north, corners: None };
        systems.push(System { name, a, b, singular: int(4) & 1 == 1 });
        bytes = &bytes[HEAD + 32 * n..];
    }
    Ok(systems)
}

/// Formats a system as `read` expects it.
pub fn write(System { name, a, b, singular }: &System) -> Vec<u8> {
    let mut bytes = b"STENCIL1".to_vec();
    for int in [2, a.nx as i32, a.ny as i32, 1, i32::from(*singular), 0] {
        bytes.extend(int.to_le_bytes());
    }
    bytes.extend(name.bytes().chain(std::iter::repeat(0)).take(HEAD - bytes.len()));
    for array in [&a.center, &a.east, &a.north, b] {
        bytes.extend(array.iter().flat_map(|value| value.to_le_bytes()));
    }
    bytes
}
