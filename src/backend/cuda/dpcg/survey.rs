//! The first look at a matrix on the device, and the classes that its deflation regions are made of (kernels/dpcg:
//! survey.cuh, classes.cuh).

use super::arrays::lists;
use super::components::Components;
use super::source::Source;
use crate::backend::cell_setup;
use crate::backend::cuda::driver::{Memory, Pinned, Stream};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{
    Address, CellArray, CellClass, CellFindings, ClassArgs, MOST_CELL_BLOCKS, MOST_GROUPS, SurveyArgs,
};
use crate::backend::steps::dpcg::Setup;
use crate::error::{Error, Result, collected, reset, zeroed};
use crate::grid::cell_components::{CellComponents, coarse_grids};
use crate::grid::cell_survey::{COARSEST, Survey, asks_for_hidden, coarsened, contrast};
use crate::grid::cells::{Cells, Kept, SevenPoints};
use crate::grid::regions::{Choice, Class, Kind, NONE, Regions, check, too_many};
use crate::runtime::team::Team;
use std::cell::OnceCell;
use std::mem::offset_of;

/// For errors.
const SURVEY: &str = "the inspection of the matrix";

/// Cells that may find a class of their own before a thread sees that there are too many: those of all threads.
const MOST_AT_ONCE: usize = 1 << 17;

/// Numbers of the extents of a group.
const EXTENTS: usize = 6;

/// What it takes on the device.
pub struct Surveyor {
    memory: Memory,
    arguments: SurveyArgs,
    classes: ClassArgs,
    findings: Pinned<CellFindings>,
    /// Of the matrix that was surveyed.
    pub components: Components,
    /// The caller's labels, where there are some.
    labels: Option<Memory>,
    /// The coarsest grid of each group, where that was asked for.
    seen: Option<Memory>,
    /// Room for extents.
    extents: Vec<u32>,
    /// Vectors of the classes that were found last, or [`NONE`].
    vectors: Vec<u16>,
}

impl Surveyor {
    /// For the matrix of `source`.
    pub fn new(stream: &Stream, source: &Source) -> Result<Self> {
        let n = source.of.count();
        // A table that is never full.
        let slots = (2 * n.min(MOST_AT_ONCE)).next_power_of_two();
        let most = n.min(usize::from(NONE));
        let sizes = [
            4 * n,
            4 * n,
            4 * EXTENTS * MOST_GROUPS,
            8 * 3 * MOST_CELL_BLOCKS as usize,
            size_of::<CellFindings>(),
            16 * slots,
            4 * slots,
            4 * slots,
            size_of::<CellClass>() * most,
            size_of::<u16>() * most,
        ];
        let (memory, [component, group, extents, partial, findings, keys, of_class, place, classes, numbers]) =
            lists(stream, sizes, SURVEY)?;
        let m = source.m;
        let arguments = SurveyArgs {
            cells: source.cells,
            to: [m.center, m.east, m.north, m.top],
            component,
            group,
            extents,
            partial,
            findings,
            ..SurveyArgs::default()
        };
        let classes = ClassArgs {
            cells: source.cells,
            m,
            group,
            slots: slots as i32,
            guard: source.of.plane() as i32,
            keys,
            first: keys + 8 * slots as u64,
            first_heavy: keys + 12 * slots as u64,
            of_class,
            place,
            // Roots are not needed any more when classes are asked for.
            slot_of: component,
            classes,
            numbers,
            findings,
            ..ClassArgs::default()
        };
        let findings = Pinned::new(stream.device(), CellFindings::none())?;
        let mut room = Vec::new();
        reset(&mut room, EXTENTS * MOST_GROUPS, SURVEY)?;
        let components = Components::new(source, component);
        Ok(Self {
            memory,
            arguments,
            classes,
            findings,
            components,
            labels: None,
            seen: None,
            extents: room,
            vectors: Vec::new(),
        })
    }

    /// Makes the arrays at `input`, center first, those of `source`. Returns what was seen.
    pub fn take(&mut self, stream: &Stream, input: [CellArray; 4]) -> Result<&CellFindings> {
        *self.findings = CellFindings::none();
        stream.send_start(self.arguments.findings, &self.findings, size_of::<CellFindings>())?;
        launch::take_matrix(stream, &SurveyArgs { input, ..self.arguments })?;
        self.see(stream)
    }

    fn see(&mut self, stream: &Stream) -> Result<&CellFindings> {
        stream.fetch_start(&mut self.findings, self.arguments.findings, size_of::<CellFindings>())?;
        stream.wait()?;
        Ok(&self.findings)
    }

    /// Surveys the matrix that was taken.
    pub fn survey(&mut self, stream: &Stream, source: &Source, zero_row_sum: f64) -> Result<Survey> {
        let a = SurveyArgs { zero_row_sum, ..self.arguments };
        stream.fill(a.extents, u8::MAX, size_of_val(&*self.extents))?;
        launch::look_at_rows(stream, &a)?;
        launch::unite_cells(stream, &a)?;
        launch::settle_cells(stream, &a)?;
        launch::group_extents(stream, &a)?;
        stream.fetch(&mut self.extents, a.extents)?;
        let &found = self.see(stream)?;
        let singular = if found.components == 1 && found.alone == 0 {
            let singular = found.regular == 0;
            self.components.set_whole(singular)?;
            collected(singular.then_some(0), SURVEY)?
        } else {
            self.components.number(stream, found.components as usize, zero_row_sum)?
        };
        let bits = |bits: [u64; 3]| bits.map(f64::from_bits);
        let (coarsened, strong) = (coarsened(source.of, found.strength), found.groups as usize);
        let asks = asks_for_hidden(source.of, coarsened, strong);
        Ok(Survey {
            row_sum: f64::from_bits(found.row_sum),
            coarsened,
            contrast: contrast(bits(found.smallest), bits(found.largest)),
            components: found.components as usize,
            singular,
            strong,
            thinnest: self.thinnest(source, strong),
            hidden: if asks { self.hidden(stream, source.of)? } else { 0 },
        })
    }

    /// Groups that coarse grids do not see.
    fn hidden(&mut self, stream: &Stream, of: Cells) -> Result<usize> {
        let bytes = 4 * of.count();
        let seen = match self.seen.take() {
            Some(memory) => memory,
            None => Memory::zeroed(stream.device(), stream, bytes, SURVEY)?,
        };
        let seen = self.seen.insert(seen).address;
        stream.fill(seen, 0, bytes)?;
        let grids = coarse_grids(of, COARSEST) as i32;
        for step in 0..3 {
            launch::hidden_groups(stream, &SurveyArgs { seen, grids, step, ..self.arguments })?;
        }
        Ok(self.see(stream)?.hidden as usize)
    }

    /// Of so many groups, where those are not too many.
    fn thinnest(&self, source: &Source, groups: usize) -> usize {
        if groups > MOST_GROUPS {
            return 0;
        }
        let size = source.of.size();
        let side = |of: &[u32], d: usize| (!of[3 + d] - of[d]) as usize + 1;
        let of_group = |of: &[u32]| (0..3).filter(|&d| size[d] > 1).map(|d| side(of, d)).min();
        self.extents.chunks(EXTENTS).take(groups).filter_map(of_group).min().unwrap_or(0)
    }

    /// Finds the regions of the matrix that was surveyed, but for those of cells, which
    /// [`Self::number_cells`] says.
    pub fn find_regions(&mut self, stream: &Stream, of: Cells, choice: &Choice) -> Result<Regions> {
        check(of, choice)?;
        let level_set = choice.kind == Kind::LevelSet;
        let labelled = level_set && choice.labels.is_some();
        if self.components.list().count() > usize::from(NONE) && !labelled {
            // Each has a class, and keys have no room for so many with boxes.
            return Err(too_many(choice));
        }
        self.classes = ClassArgs {
            component: self.components.of_cells(),
            labels: self.send_labels(stream, choice.labels)?,
            boxes: if level_set { [1; 3] } else { choice.boxes.map(|n| n as i32) },
            by_phase: i32::from(choice.kind != Kind::Subdomain),
            labelled: i32::from(labelled),
            dilation: i32::from(choice.dilation),
            ..self.classes
        };
        let a = &self.classes;
        stream.fill(a.keys, u8::MAX, 16 * a.slots as usize)?;
        stream.fill(a.of_class, 0, 4 * a.slots as usize)?;
        stream.fill(a.findings + offset_of!(CellFindings, classes) as u64, 0, size_of::<u64>())?;
        launch::classify_cells(stream, a)?;
        launch::gather_classes(stream, a)?;
        let from = a.classes;
        let count = self.see(stream)?.classes as usize;
        if count > usize::from(NONE) {
            return Err(too_many(choice));
        }
        let mut found: Vec<CellClass> = zeroed(count, SURVEY)?;
        stream.fetch(&mut found, from)?;
        stream.wait()?;
        self.number_classes(&found, level_set, choice.keep_all)
    }

    /// Numbers the vectors of classes that are in no order.
    fn number_classes(&mut self, found: &[CellClass], level_set: bool, keep_all: bool) -> Result<Regions> {
        let mut order = collected(0..found.len(), SURVEY)?;
        order.sort_unstable_by_key(|&k| found[k].first);
        let class = |&k: &usize| Class {
            component: found[k].component as usize,
            cells: found[k].cells as usize,
            heavy: level_set && found[k].unlabelled != 0,
            first_heavy: (found[k].first_heavy != u32::MAX).then_some(found[k].first_heavy as usize),
        };
        let classes = collected(order.iter().map(class), SURVEY)?;
        let (regions, vector) = Regions::of_classes(&classes, self.components.list(), keep_all)?;
        reset(&mut self.vectors, found.len(), SURVEY)?;
        for (&k, vector) in order.iter().zip(vector) {
            self.vectors[k] = vector;
        }
        Ok(regions)
    }

    /// The caller's labels to the device; 0: there are none.
    fn send_labels(&mut self, stream: &Stream, labels: Option<&[i32]>) -> Result<Address> {
        let Some(labels) = labels else { return Ok(0) };
        let memory = match self.labels.take() {
            Some(memory) => memory,
            None => Memory::zeroed(stream.device(), stream, size_of_val(labels), "labels")?,
        };
        stream.send(memory.address, labels)?;
        stream.wait()?;
        Ok(self.labels.insert(memory).address)
    }

    /// The region of each cell, in 16 bits, to `regions`; `none` to cells in no region, and to a plane of them before
    /// and after.
    pub fn number_cells(&self, stream: &Stream, regions: Address, none: u16) -> Result<()> {
        let number = |&vector: &u16| if vector == NONE { none } else { vector };
        stream.send(self.classes.numbers, &collected(self.vectors.iter().map(number), SURVEY)?)?;
        stream.wait()?;
        launch::number_cells(stream, &ClassArgs { regions, none: i32::from(none), ..self.classes })
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        let lists = [&self.labels, &self.seen].into_iter().flatten().map(|memory| memory.bytes);
        self.memory.bytes + self.components.bytes() + lists.sum::<usize>()
    }
}

/// What a factorization is made of: the matrix, and what is known of it.
pub struct Made<'a> {
    pub source: &'a Source,
    /// The host's copy of the matrix, from when it is asked for.
    pub kept: &'a OnceCell<Kept>,
    pub setup: &'a Setup,
    /// Components, and regions of cells.
    pub surveyor: &'a Surveyor,
    pub regions: Option<&'a Regions>,
}

impl<'a> Made<'a> {
    /// The matrix, in the memory of the host.
    pub fn on_host(&self, stream: &Stream) -> Result<SevenPoints<'a>> {
        on_host(self.kept, self.source, stream)
    }

    /// Its components there, those that the device has found.
    pub fn components_on_host(&self, stream: &Stream, team: &mut Team) -> Result<CellComponents> {
        let components = &self.surveyor.components;
        if components.is_whole() {
            return CellComponents::whole(self.source.of, components.list().singular_count() == 1);
        }
        let (found, _) = cell_setup::survey(team, &self.on_host(stream)?, components.zero_row_sum())?;
        Ok(found.components)
    }
}

/// The host's copy of the matrix, made where there is none.
pub fn on_host<'k>(kept: &'k OnceCell<Kept>, source: &Source, stream: &Stream) -> Result<SevenPoints<'k>> {
    if kept.get().is_none() {
        let _ = kept.set(source.keep(stream)?);
    }
    kept.get().map(Kept::matrix).ok_or_else(|| Error::Internal("the host has no copy of the matrix".to_owned()))
}
