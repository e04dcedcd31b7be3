//! Reader of VTK image data (.vti): one piece, cell arrays as text or as uncompressed base64.

use anyhow::{Context as _, Result, anyhow, bail};
use std::path::Path;

/// The arrays of a wave field, row by row from the south-west.
pub struct Field {
    pub nx: usize,
    pub ny: usize,
    pub origin: [f64; 2],
    pub cell: [f64; 2],
    pub time: Option<f64>,
    pub zeta: Vec<f32>,
    pub depth: Vec<f32>,
    pub draft: Option<Vec<f32>>,
    /// Components of a current to the east and north.
    pub current: Option<[Vec<f32>; 2]>,
}

pub fn read(path: &Path) -> Result<Field> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    parse(&text).with_context(|| format!("{shown}"))
}

fn parse(text: &str) -> Result<Field> {
    let document = roxmltree::Document::parse(text).context("not XML")?;
    let root = document.root_element();
    let image = root
        .children()
        .find(|node| node.has_tag_name("ImageData"))
        .context("not VTK image data (no ImageData element)")?;
    let extent: Vec<i64> = numbers(image.attribute("WholeExtent").unwrap_or(""), "WholeExtent", 6)?;
    let (nx, ny) = (extent[1] - extent[0], extent[3] - extent[2]);
    if nx < 1 || ny < 1 || extent[5] - extent[4] > 1 {
        bail!("WholeExtent {extent:?} is not a plane of cells");
    }
    let origin: Vec<f64> = numbers(image.attribute("Origin").unwrap_or("0 0 0"), "Origin", 3)?;
    let spacing: Vec<f64> = numbers(image.attribute("Spacing").unwrap_or("1 1 1"), "Spacing", 3)?;
    if !(spacing[0] > 0.0 && spacing[1] > 0.0) {
        bail!("Spacing {spacing:?} must be positive");
    }
    let coding = Coding {
        wide_header: root.attribute("header_type") == Some("UInt64"),
        big_endian: root.attribute("byte_order") == Some("BigEndian"),
    };
    if root.attribute("compressor").is_some() {
        bail!("compressed arrays are not supported");
    }
    let (nx, ny) = (nx as usize, ny as usize);
    let array = |name: &str| {
        image.descendants().find(|node| node.has_tag_name("DataArray") && node.attribute("Name") == Some(name)).map(
            |node| {
                let values = coding.values(node).with_context(|| format!("array {name}"))?;
                if name != "TimeValue" && values.len() != nx * ny {
                    bail!("array {name} has {} values for {nx} x {ny} cells", values.len());
                }
                Ok(values)
            },
        )
    };
    let needed = |name: &str| array(name).unwrap_or_else(|| Err(anyhow!("no array {name}")));
    Ok(Field {
        nx,
        ny,
        origin: [origin[0], origin[1]],
        cell: [spacing[0], spacing[1]],
        time: array("TimeValue").transpose()?.and_then(|values| values.first().map(|t| f64::from(*t))),
        zeta: needed("zeta")?,
        depth: needed("depth")?,
        draft: array("draft").transpose()?,
        current: match (array("current_u").transpose()?, array("current_v").transpose()?) {
            (Some(u), Some(v)) => Some([u, v]),
            _ => None,
        },
    })
}

fn numbers<T: std::str::FromStr>(text: &str, name: &str, count: usize) -> Result<Vec<T>> {
    let values: Option<Vec<T>> = text.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
    values
        .filter(|values| values.len() == count)
        .with_context(|| format!("{name} must be {count} numbers, got \"{text}\""))
}

struct Coding {
    wide_header: bool,
    big_endian: bool,
}

impl Coding {
    fn values(&self, node: roxmltree::Node) -> Result<Vec<f32>> {
        let text = node.text().unwrap_or("");
        let kind = node.attribute("type").unwrap_or("");
        match node.attribute("format").unwrap_or("ascii") {
            "ascii" => text
                .split_ascii_whitespace()
                .map(|word| word.parse().map_err(|_| anyhow!("\"{word}\" is not a number")))
                .collect(),
            "binary" => {
                let bytes = decode_base64(text)?;
                let header = if self.wide_header { 8 } else { 4 };
                let data = bytes.get(header..).context("too short")?;
                match kind {
                    "Float32" => Ok(data.chunks_exact(4).map(|c| self.f32(c)).collect()),
                    "Float64" => Ok(data.chunks_exact(8).map(|c| self.f64(c) as f32).collect()),
                    other => Err(anyhow!("type {other} is not supported")),
                }
            }
            other => Err(anyhow!("format {other} is not supported")),
        }
    }

    fn f32(&self, bytes: &[u8]) -> f32 {
        f32::from_bits(self.bits(bytes) as u32)
    }

    fn f64(&self, bytes: &[u8]) -> f64 {
        f64::from_bits(self.bits(bytes))
    }

    fn bits(&self, bytes: &[u8]) -> u64 {
        let join = |word: u64, byte: &u8| word << 8 | u64::from(*byte);
        if self.big_endian { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) }
    }
}

fn decode_base64(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut group, mut bits) = (0u32, 0u32);
    for byte in text.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => break,
            _ if byte.is_ascii_whitespace() => continue,
            _ => bail!("not base64"),
        };
        group = group << 6 | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((group >> bits) as u8);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(format: &str, zeta: &str) -> String {
        format!(
            r#"<?xml version="1.0"?><VTKFile type="ImageData" byte_order="LittleEndian" header_type="UInt64">
            <ImageData WholeExtent="0 2 0 1 0 0" Origin="10 20 0" Spacing="5 5 1"><FieldData>
            <DataArray type="Float64" Name="TimeValue" format="ascii">7.5</DataArray></FieldData>
            <Piece Extent="0 2 0 1 0 0"><CellData>
            <DataArray type="Float32" Name="zeta" format="{format}">{zeta}</DataArray>
            <DataArray type="Float32" Name="depth" format="ascii">3 4</DataArray>
            </CellData></Piece></ImageData></VTKFile>"#
        )
    }

    #[test]
    fn text_and_base64_give_the_same_values() {
        // 8 as a 64-bit count, then 1.0 and -2.0 as 32-bit floats, all little endian.
        for text in [file("ascii", "1 -2"), file("binary", "CAAAAAAAAAAAAIA/AAAAwA==")] {
            let field = parse(&text).unwrap();
            assert_eq!((field.nx, field.ny, field.time), (2, 1, Some(7.5)));
            assert_eq!(field.zeta, [1.0, -2.0]);
            assert_eq!((field.origin, field.cell), ([10.0, 20.0], [5.0, 5.0]));
            assert!(field.draft.is_none());
        }
    }

    #[test]
    fn refuses_with_a_reason() {
        for (text, reason) in [
            ("<a", "not XML"),
            ("<VTKFile/>", "no ImageData"),
            (&file("ascii", "1"), "array zeta has 1 values for 2 x 1 cells"),
            (&file("ascii", "1 x"), "\"x\" is not a number"),
            (&file("binary", "!"), "not base64"),
            (&file("appended", ""), "format appended is not supported"),
            (&file("ascii", "1 2").replace("0 2 0 1", "0 2 0 0"), "not a plane of cells"),
            (&file("ascii", "1 2").replace("\"depth\"", "\"d\""), "no array depth"),
        ] {
            let message = format!("{:#}", parse(text).err().expect(reason));
            assert!(message.contains(reason), "{message}");
        }
    }
}
