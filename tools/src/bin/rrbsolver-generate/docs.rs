//! Doc comments of the exported items, as cbindgen copies them into the header.

use anyhow::{Context as _, Result, ensure};

use crate::wrap;

/// A piece of a doc comment.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Running text.
    Paragraph(String),
    /// A list item, with its indentation.
    Item(usize, String),
    /// A fenced block: its language, its lines, and the directive of a preceding comment.
    Code(String, String, Option<String>),
    /// Lines of a table.
    Table(String),
}

/// A doc comment: the text before the first heading, and the sections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Doc {
    pub lead: Vec<Block>,
    pub sections: Vec<(String, Vec<Block>)>,
}

/// A function of the header.
pub struct Entry {
    /// Name in C.
    pub name: String,
    /// Prototype, with its line breaks and the semicolon.
    pub prototype: String,
    pub doc: Doc,
}

/// Sections of a function, in this order.
pub const SECTIONS: [&str; 8] = ["Parameters", "Returns", "Errors", "Notes", "Fortran", "C++", "Example", "Safety"];
/// Sections that the header omits.
const REFERENCE_ONLY: [&str; 3] = ["Fortran", "C++", "Example"];
/// Prefixes of the functions.
const PREFIXES: [&str; 5] = ["rrb_", "dpcg_", "smoother_", "sparse_", "rrbsolver_"];

impl Doc {
    /// Parses the lines of a comment, without the parts for functions with other prefixes.
    pub fn parse(lines: &[&str], prefix: &str) -> Self {
        let mut doc = Self::default();
        let mut parser = Parser::default();
        for line in lines {
            if let (false, Some(title)) = (parser.in_code(), line.strip_prefix("# ")) {
                parser.end_text();
                let blocks = std::mem::take(&mut parser.blocks);
                doc.put(blocks, prefix);
                doc.sections.push((title.trim().to_owned(), Vec::new()));
            } else {
                parser.line(line);
            }
        }
        parser.end_text();
        doc.put(parser.blocks, prefix);
        doc
    }

    /// Appends blocks to the last section.
    fn put(&mut self, blocks: Vec<Block>, prefix: &str) {
        let target = self.sections.last_mut().map_or(&mut self.lead, |(_, blocks)| blocks);
        target.extend(blocks.into_iter().filter_map(|block| of_prefix(block, prefix)));
    }

    pub fn section(&self, title: &str) -> Option<&[Block]> {
        self.sections.iter().find(|(name, _)| name == title).map(|(_, blocks)| &blocks[..])
    }

    /// Formats the comment for the header.
    pub fn comment(&self) -> String {
        let lead: Vec<Block> = self.lead.iter().map(without_links).collect();
        let mut text = blocks_text(&lead, 116);
        for (title, blocks) in self.sections.iter().filter(|(title, _)| !REFERENCE_ONLY.contains(&title.as_str())) {
            // "Safety" is Rust's heading for conditions that the caller must ensure.
            let title = if title == "Safety" { "Required" } else { title };
            let blocks: Vec<Block> = blocks.iter().map(without_links).collect();
            text += &format!("\n{title}:\n{}", blocks_text(&blocks, 116));
        }
        let lines = text.lines().map(|line| format!(" * {line}").trim_end().to_owned() + "\n");
        format!("/**\n{} */", lines.collect::<String>())
    }
}

/// Returns the block if it applies to functions with this prefix: "(dpcg_, sparse_) text" applies to these two
/// prefixes, as does a block of the language "c,dpcg_,sparse_".
fn of_prefix(block: Block, prefix: &str) -> Option<Block> {
    let of_text = |text: String| {
        let Some((list, rest)) = marked(&text) else { return Some(text) };
        list.split(", ").any(|p| p == prefix).then(|| rest.to_owned())
    };
    Some(match block {
        Block::Paragraph(text) => Block::Paragraph(of_text(text)?),
        Block::Item(indent, text) => Block::Item(indent, of_text(text)?),
        Block::Code(language, text, directive) => {
            let mut parts = language.split(',');
            let language = parts.next().unwrap_or_default().to_owned();
            let mut prefixes = parts.peekable();
            if prefixes.peek().is_some() && !prefixes.any(|p| p == prefix) {
                return None;
            }
            Block::Code(language, text, directive)
        }
        table @ Block::Table(_) => table,
    })
}

/// Replaces links by their texts, because the header has no pages to link to.
fn without_links(block: &Block) -> Block {
    let plain = |text: &str| {
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('[') {
            let link = after.split_once("](").and_then(|(name, tail)| {
                let (target, tail) = tail.split_once(')')?;
                (!name.contains(']') && target.contains(".md")).then_some((name, tail))
            });
            plain += before;
            match link {
                Some((name, tail)) => {
                    plain += name;
                    rest = tail;
                }
                None => {
                    plain.push('[');
                    rest = after;
                }
            }
        }
        plain + rest
    };
    match block {
        Block::Paragraph(text) => Block::Paragraph(plain(text)),
        Block::Item(indent, text) => Block::Item(*indent, plain(text)),
        other => other.clone(),
    }
}

/// Splits a text into the prefixes at its beginning and the rest.
fn marked(text: &str) -> Option<(&str, &str)> {
    let (list, rest) = text.strip_prefix('(')?.split_once(") ")?;
    list.split(", ").all(|p| PREFIXES.contains(&p)).then_some((list, rest))
}

/// Splits lines into blocks.
#[derive(Default)]
struct Parser {
    blocks: Vec<Block>,
    /// The paragraph, item or table that may continue.
    open: Option<Block>,
    /// Language and text of the open fenced block.
    code: Option<(String, String)>,
    directive: Option<String>,
}

impl Parser {
    fn in_code(&self) -> bool {
        self.code.is_some()
    }

    fn end_text(&mut self) {
        self.blocks.extend(self.open.take());
    }

    fn line(&mut self, line: &str) {
        let text = line.trim();
        if let Some((language, mut code)) = self.code.take() {
            if text == "```" {
                self.blocks.push(Block::Code(language, code, self.directive.take()));
            } else {
                code += line.trim_end();
                code.push('\n');
                self.code = Some((language, code));
            }
        } else if let Some(language) = text.strip_prefix("```") {
            self.end_text();
            self.code = Some((language.to_owned(), String::new()));
        } else if text.is_empty() {
            self.end_text();
        } else if text.starts_with("<!--") {
            self.end_text();
            self.directive = Some(text.to_owned());
        } else if text.starts_with('|') {
            match &mut self.open {
                Some(Block::Table(table)) => *table += &format!("{text}\n"),
                _ => {
                    self.end_text();
                    self.open = Some(Block::Table(format!("{text}\n")));
                }
            }
        } else if let Some(item) = text.strip_prefix("- ") {
            self.end_text();
            self.open = Some(Block::Item(line.len() - line.trim_start().len(), item.to_owned()));
        } else {
            match &mut self.open {
                Some(Block::Paragraph(old) | Block::Item(_, old)) if marked(text).is_none() => {
                    old.push(' ');
                    old.push_str(text);
                }
                _ => {
                    self.end_text();
                    self.open = Some(Block::Paragraph(text.to_owned()));
                }
            }
        }
    }
}

/// Formats blocks as Markdown, in lines of at most `width` characters.
pub fn blocks_text(blocks: &[Block], width: usize) -> String {
    let mut text = String::new();
    let mut before_was_item = false;
    for (n, block) in blocks.iter().enumerate() {
        let item = matches!(block, Block::Item(..));
        if n > 0 && !(item && before_was_item) {
            text.push('\n');
        }
        match block {
            Block::Paragraph(t) => text += &(wrap(t, width).join("\n") + "\n"),
            Block::Item(indent, t) => {
                let lines = wrap(t, width - indent - 2);
                text += &format!("{:indent$}- {}\n", "", lines.join(&format!("\n{:1$}", "", indent + 2)));
            }
            Block::Code(language, code, directive) => {
                let directive = directive.as_ref().map_or(String::new(), |d| format!("{d}\n"));
                text += &format!("{directive}```{language}\n{code}```\n");
            }
            Block::Table(table) => text += table,
        }
        before_was_item = item;
    }
    text
}

/// Splits the header that cbindgen wrote (`raw`) into comments and the code between them.
fn comments(raw: &str) -> impl Iterator<Item = (&str, Option<&str>, &str)> {
    let mut rest = raw;
    let mut done = false;
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        let found = rest.find("\n/**\n").and_then(|start| {
            let body = &rest[start + 5..];
            body.find("\n */").map(|end| (start + 1, &body[..end], &body[end + 4..]))
        });
        Some(match found {
            Some((start, body, after)) => {
                let before = &rest[..start];
                rest = after;
                (before, Some(body), after)
            }
            None => {
                done = true;
                (rest, None, "")
            }
        })
    })
}

/// Returns prototype and name of the function at the beginning of `code`, if any.
fn function(code: &str) -> Option<(&str, &str)> {
    let prototype = code.trim_start().split_inclusive(';').next()?;
    let (head, _) = prototype.split_once('(')?;
    let name = crate::fortran::split_name(head).1;
    let is_type = ["typedef ", "struct "].iter().any(|word| prototype.starts_with(word));
    (!is_type && !name.is_empty()).then_some((prototype, name))
}

fn prefix_of(name: &str) -> &'static str {
    PREFIXES.into_iter().find(|prefix| name.starts_with(prefix)).unwrap_or_default()
}

fn parse_comment(body: &str, code: &str) -> Doc {
    let lines: Vec<&str> =
        body.lines().map(|line| line.strip_prefix(" * ").or_else(|| line.strip_prefix(" *")).unwrap_or(line)).collect();
    Doc::parse(&lines, function(code).map_or("", |(_, name)| prefix_of(name)))
}

/// Returns the header with formatted comments, without the sections of the reference.
pub fn laid_out(raw: &str) -> String {
    let mut text = String::new();
    for (before, body, code) in comments(raw) {
        text += before;
        if let Some(body) = body {
            text += &parse_comment(body, code).comment();
        }
    }
    text
}

/// Returns the functions of the header.
pub fn entries(raw: &str) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (_, body, code) in comments(raw) {
        if let (Some(body), Some((prototype, name))) = (body, function(code)) {
            let doc = parse_comment(body, code);
            entries.push(Entry { name: name.to_owned(), prototype: prototype.to_owned(), doc });
        }
    }
    ensure!(!entries.is_empty(), "the header has no function with a comment");
    Ok(entries)
}

/// A type of the header: its name, its declaration, and its comment.
pub struct TypeEntry {
    pub name: String,
    pub declaration: String,
    pub doc: Doc,
}

/// Returns the types of the header.
pub fn types(raw: &str) -> Vec<TypeEntry> {
    let of = |(_, body, code): (&str, Option<&str>, &str)| {
        let code = code.trim_start();
        let end = if code.starts_with("typedef struct {") { code.find("\n} ")? } else { 0 };
        let end = end + code[end..].find(';')? + 1;
        let declaration = code.starts_with("typedef ").then(|| code[..end].to_owned())?;
        let name = match declaration.split_once("(*") {
            Some((_, rest)) if !declaration.contains('{') => rest.split(')').next()?.to_owned(),
            _ => crate::fortran::split_name(declaration.trim_end_matches(';')).1.to_owned(),
        };
        Some(TypeEntry { name, declaration, doc: parse_comment(body?, code) })
    };
    comments(raw).filter_map(of).collect()
}

impl Entry {
    pub fn prefix(&self) -> &'static str {
        prefix_of(&self.name)
    }

    /// Returns the names of the parameters.
    fn parameters(&self) -> Result<Vec<&str>> {
        let (_, list) = self.prototype.split_once('(').context("no parameters")?;
        let list = list.trim_end().trim_end_matches(';').trim_end_matches(')');
        Ok(list
            .split(',')
            .map(|p| p.trim().trim_end_matches("[2]").trim_end_matches("[3]").trim_end_matches(')'))
            .map(|p| crate::fortran::split_name(p).1)
            .filter(|&p| p != "void" && !p.is_empty())
            .collect())
    }

    /// Returns the missing parts of the documentation of the function.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut complain = |what: String| problems.push(format!("{}: {what}", self.name));
        let is_sentence = |block: &Block| matches!(block, Block::Paragraph(text) if text.ends_with('.'));
        if !self.doc.lead.first().is_some_and(is_sentence) {
            complain("the first paragraph of the comment must end with a period".to_owned());
        }
        for title in SECTIONS.into_iter().filter(|&title| title != "Notes" && title != "Safety") {
            if self.doc.section(title).is_none_or(<[Block]>::is_empty) {
                complain(format!("section {title} is missing"));
            }
        }
        let places = self.doc.sections.iter().map(|(title, _)| SECTIONS.iter().position(|s| s == title));
        let places: Option<Vec<usize>> = places.collect();
        if !places.is_some_and(|places| places.is_sorted_by(|a, b| a < b)) {
            complain(format!("sections are {}, in this order", SECTIONS.join(", ")));
        }
        let all = self.doc.sections.iter().map(|(_, blocks)| blocks).chain([&self.doc.lead]).flatten();
        for block in all {
            if let Block::Paragraph(text) | Block::Item(_, text) = block {
                let words = text.split_whitespace().count();
                let start: String = text.chars().take(40).collect();
                if words > 60 {
                    complain(format!("a paragraph of {words} words, more than 60: {start}..."));
                }
                if text.contains('$') {
                    complain(format!("a name with $ that the macro does not have: {start}..."));
                }
            }
        }
        let items = |title: &str| {
            let blocks = self.doc.section(title).unwrap_or_default().iter();
            blocks.filter_map(|block| if let Block::Item(_, text) = block { Some(text.as_str()) } else { None })
        };
        for parameter in self.parameters().unwrap_or_default() {
            let heads = items("Parameters").map(|text| text.split(':').next().unwrap_or_default());
            if !heads.into_iter().any(|head| head.contains(&format!("`{parameter}`"))) {
                complain(format!("section Parameters has no item `{parameter}`"));
            }
        }
        for error in items("Errors").filter(|text| !text.starts_with("`RRB_") && !text.starts_with("all errors of ")) {
            complain(format!("an error does not begin with its status: {error}"));
        }
        for title in ["Fortran", "C++"] {
            let first = self.doc.section(title).and_then(<[Block]>::first);
            let says = match first {
                Some(Block::Paragraph(text)) => ["`", "No "].iter().any(|start| text.starts_with(start)),
                Some(Block::Code(..)) | None => true,
                _ => false,
            };
            if !says {
                complain(format!("section {title} begins neither with a call nor with 'No' and the reason"));
            }
        }
        let uses = |block: &Block| matches!(block, Block::Code(_, code, _) if code.contains(&self.name));
        if self.doc.section("Example").is_some_and(|blocks| !blocks.iter().any(uses)) {
            complain("the example does not call the function".to_owned());
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: &str = "x\n\n/**\n * Frees it.\n * Always.\n *\n * # Parameters\n * - `h` (in): handle of\n *   this.\n \
                       * - (dpcg_) only there\n *\n * # Errors\n * None.\n *\n * # C++\n * `f()`\n *\n * # Example\n \
                       * ```c\n * rrb_f(h);\n * ```\n *\n * # Safety\n * `h` lives.\n */\nrrb_status rrb_f(int h);\n";

    #[test]
    fn comments_lose_the_sections_of_the_reference() {
        let expected = "x\n\n/**\n * Frees it. Always.\n *\n * Parameters:\n * - `h` (in): handle of this.\n *\n \
                        * Errors:\n * None.\n *\n * Required:\n * `h` lives.\n */\nrrb_status rrb_f(int h);\n";
        assert_eq!(laid_out(RAW), expected);
    }

    #[test]
    fn missing_sections_are_named() {
        let entries = entries(RAW).unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].problems(), ["rrb_f: section Returns is missing", "rrb_f: section Fortran is missing"]);
    }
}
