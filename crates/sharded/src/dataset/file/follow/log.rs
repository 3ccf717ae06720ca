//! The log of files that grow: which files are known, and how far each was read.
//!
//! Invariants: a slice ends behind whole lines, and within one file lines come in order. What is left of
//! files that are known comes before new files, so a log that was rotated is read to its end before the
//! one that took its name. A file that was read as a whole is known by its name and not read again. What
//! a slice says is all that its reader needs.

use super::identity::{FileNumber, TextIdentity, WholeIdentity, file_number};
use super::{FollowDataset, growing};
use crate::dataset::file::discover::discover_now;
use crate::dataset::file::location::{Location, is_url};
use crate::dataset::file::{FileFormat, ReadOptions};
use crate::dataset::log::{decode, encode};
use crate::dataset::{Cut, ShardLog};
use crate::error::in_file;
use datafusion::common::{Result, exec_err};
use serde::{Deserialize, Serialize};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How many bytes of files a slice has, about.
const SLICE_BYTES: u64 = 8 << 20;

/// How many files a slice has at most.
const SLICE_FILES: usize = 256;

/// How many text files are kept open.
const OPEN_FILES: usize = 256;

/// How long a file may be missing: lists that are made while files are renamed lack some.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often files are listed at most until two lists are alike.
const RELISTS: usize = 5;

/// How often a folder is listed, and how often an object store.
const LIST_FOLDER: Duration = Duration::from_millis(100);
const LIST_OBJECTS: Duration = Duration::from_secs(2);

/// A part of a slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Extent {
    /// Lines of a text file.
    Lines { path: PathBuf, identity: TextIdentity, start: u64, end: u64 },
    /// A whole file or object.
    Whole { place: String, identity: WholeIdentity },
}

/// All that is known of the files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    texts: Vec<TextFile>,
    /// The files that were read as a whole.
    whole: BTreeSet<String>,
}

/// A text file, and how far it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TextFile {
    path: PathBuf,
    identity: TextIdentity,
    read: u64,
}

/// A file in a list, with its number and its state if it is on this machine.
struct Listed {
    location: Location,
    number: Option<FileNumber>,
    state: Option<State>,
}

/// The length of a file and the time of its last change.
type State = (u64, Option<SystemTime>);

impl Listed {
    fn new(location: Location) -> Listed {
        let metadata = match &location {
            Location::Path(path) => path.metadata().ok(),
            Location::Object(_) => None,
        };
        let number = metadata.as_ref().map(file_number);
        let state = metadata.map(|metadata| (metadata.len(), metadata.modified().ok()));
        Listed { location, number, state }
    }
}

impl PartialEq for Listed {
    fn eq(&self, other: &Listed) -> bool {
        self.number == other.number && self.location.to_string() == other.location.to_string()
    }
}

/// Cuts files that grow into slices.
pub(super) struct FollowLog {
    names: Vec<String>,
    options: ReadOptions,
    position: Position,
    /// Where each text file is among those of the position.
    places: HashMap<FileNumber, usize>,
    /// The text files that had nothing new, as they were then.
    quiet: HashMap<FileNumber, State>,
    /// Open files, so that what is removed can be noticed to have had more.
    open: Vec<(FileNumber, File)>,
    /// Since when files are missing that are known.
    missing: Vec<(FileNumber, Instant)>,
    /// The files of the last list that were not looked at yet.
    left: VecDeque<Listed>,
    /// Not before this are the files listed again.
    next_list: Option<Instant>,
}

impl FollowLog {
    /// A log that begins with the files that are there.
    pub fn new(dataset: &FollowDataset) -> FollowLog {
        let (names, options) = (dataset.names.clone(), dataset.options.clone());
        FollowLog {
            names,
            options,
            position: Position::default(),
            places: HashMap::new(),
            quiet: HashMap::new(),
            open: vec![],
            missing: vec![],
            left: VecDeque::new(),
            next_list: None,
        }
    }

    /// When the files are looked for again. However many there are, that takes a tenth of the time at
    /// most.
    fn next_list(&self, began: Instant) -> Instant {
        let is_remote = self.names.iter().any(|name| is_url(name));
        let interval = if is_remote { LIST_OBJECTS } else { LIST_FOLDER };
        Instant::now() + interval.max(began.elapsed() * 10)
    }

    /// The files that are there, those that are known before others.
    fn list(&self) -> Result<Vec<Listed>> {
        let list = || -> Result<Vec<Listed>> {
            Ok(discover_now(&self.names)?.into_iter().map(Listed::new).collect())
        };
        let mut listed = list()?;
        // A list that is made while files are renamed may lack one of them, and a newer file must not be
        // read before it. Two lists that are alike have all.
        for _ in 0..RELISTS {
            if !listed.iter().any(|file| self.is_new(file)) {
                break;
            }
            let again = list()?;
            let is_alike = again == listed;
            listed = again;
            if is_alike {
                break;
            }
        }
        let known = |file: &Listed| self.place_of(file).unwrap_or(usize::MAX);
        listed.sort_by_cached_key(known);
        Ok(listed)
    }

    /// The place of a text file among those that are known.
    fn place_of(&self, file: &Listed) -> Option<usize> {
        self.places.get(&file.number?).copied()
    }

    /// Adds a text file to those that are known, or says how far it was read.
    fn set_text(&mut self, text: TextFile) {
        match self.places.entry(text.identity.number()) {
            Entry::Occupied(place) => self.position.texts[*place.get()] = text,
            Entry::Vacant(place) => {
                place.insert(self.position.texts.len());
                self.position.texts.push(text);
            }
        }
    }

    /// Finds the places of all text files.
    fn find_places(&mut self) {
        let texts = self.position.texts.iter().map(|text| text.identity.number());
        self.places = texts.zip(0..).collect();
    }

    /// Whether nothing of a file has been read.
    fn is_new(&self, file: &Listed) -> bool {
        self.place_of(file).is_none() && !self.position.whole.contains(&file.location.to_string())
    }

    /// The part of a text file that has not been read; none if it has no new line. Its place among the
    /// files that are known is updated.
    fn lines(&mut self, listed: &Listed, path: &Path, format: FileFormat) -> Result<Option<Extent>> {
        let Ok(mut file) = File::open(path) else { return Ok(None) };
        let metadata = file.metadata().map_err(|e| in_file(path, e))?;
        if listed.number != Some(file_number(&metadata)) {
            // It has been renamed since it was listed. Those behind it may be newer.
            self.left.clear();
            return Ok(None);
        }
        let known = self.place_of(listed);
        let start = match known {
            Some(known) => {
                let text = &mut self.position.texts[known];
                text.path = path.to_path_buf();
                let is_same = text.identity.is(&mut file, path)? && metadata.len() >= text.read;
                // It was cut off and written anew, or its number was given to another file.
                if is_same { text.read } else { 0 }
            }
            None => 0,
        };
        let number = file_number(&metadata);
        if !self.open.iter().any(|(open, _)| *open == number) && self.open.len() < OPEN_FILES {
            self.open.push((number, file.try_clone().map_err(|e| in_file(path, e))?));
        }
        let end = match metadata.len() > start {
            true => end_of_lines(&mut file, path, start, format)?,
            false => None,
        };
        let Some(end) = end else {
            listed.state.map(|state| self.quiet.insert(number, state));
            return Ok(None);
        };
        let identity = match known.map(|known| &self.position.texts[known].identity) {
            Some(identity) if start > 0 && identity.is_complete() => identity.clone(),
            _ => {
                file.rewind().map_err(|e| in_file(path, e))?;
                TextIdentity::of(&mut file, path, end)?
            }
        };
        let text = TextFile { path: path.to_path_buf(), identity: identity.clone(), read: end };
        self.set_text(text);
        Ok(Some(Extent::Lines { path: path.to_path_buf(), identity, start, end }))
    }

    /// Looks for text files that are missing. One that was not read to its end is waited for, and is an
    /// error if it does not come back; any other is forgotten after a while. Whether one is waited for.
    fn check_missing(&mut self, listed: &[Listed]) -> Result<bool> {
        let there: HashSet<FileNumber> = listed.iter().filter_map(|file| file.number).collect();
        self.missing.retain(|(number, _)| !there.contains(number));
        let (mut is_waiting, known) = (false, self.position.texts.len());
        for at in (0..self.position.texts.len()).rev() {
            let TextFile { path, identity, read } = &self.position.texts[at];
            let number = identity.number();
            if there.contains(&number) {
                continue;
            }
            let since = match self.missing.iter().find(|(missing, _)| *missing == number) {
                Some((_, since)) => *since,
                None => {
                    let now = Instant::now();
                    self.missing.push((number, now));
                    now
                }
            };
            let is_over = since.elapsed() >= PATIENCE;
            let open = self.open.iter().position(|(of, _)| *of == number);
            let bytes = open.and_then(|open| self.open[open].1.metadata().ok()).map_or(0, |now| now.len());
            if bytes > *read && is_over {
                return exec_err!(
                    "`{0}` was removed, or renamed to what is not followed, before its bytes {read} to {bytes} were \
                     read; follow the names of rotated files too, as in `{0}*`",
                    path.display()
                );
            }
            is_waiting |= bytes > *read;
            if is_over {
                self.position.texts.remove(at);
                self.missing.retain(|(missing, _)| *missing != number);
                self.quiet.remove(&number);
                open.map(|open| self.open.swap_remove(open));
            }
        }
        if self.position.texts.len() < known {
            self.find_places();
        }
        Ok(is_waiting)
    }

    /// The new part of a file.
    fn extent(&mut self, listed: &Listed) -> Result<Option<Extent>> {
        let location = &listed.location;
        if let (Location::Path(path), Some(format)) = (location, growing(location, &self.options)) {
            let quiet = listed.number.and_then(|number| self.quiet.get(&number));
            return match quiet.is_some() && quiet == listed.state.as_ref() {
                true => Ok(None),
                false => self.lines(listed, path, format),
            };
        }
        let place = location.to_string();
        if self.position.whole.contains(&place) {
            return Ok(None);
        }
        let identity = WholeIdentity::of(location)?;
        self.position.whole.insert(place.clone());
        Ok(Some(Extent::Whole { place, identity }))
    }
}

impl ShardLog for FollowLog {
    fn cut(&mut self) -> Result<Cut> {
        if self.left.is_empty() {
            if self.next_list.is_some_and(|next| Instant::now() < next) {
                return Ok(Cut::Nothing);
            }
            let began = Instant::now();
            let found = self.list()?;
            if !self.check_missing(&found)? {
                self.left = found.into();
            }
            self.next_list = Some(self.next_list(began));
        }
        let mut slice = Vec::new();
        let mut bytes = 0;
        while bytes < SLICE_BYTES
            && slice.len() < SLICE_FILES
            && let Some(file) = self.left.pop_front()
        {
            let Some(extent) = self.extent(&file)? else { continue };
            bytes += match &extent {
                Extent::Lines { start, end, .. } => {
                    if file.state.is_some_and(|(length, _)| *end < length) {
                        // What is left of it comes before other files.
                        self.left.push_front(file);
                    }
                    end - start
                }
                Extent::Whole { .. } => SLICE_BYTES / 8,
            };
            slice.push(extent);
        }
        if slice.is_empty() {
            return Ok(Cut::Nothing);
        }
        Ok(Cut::Slice(encode(&slice)?))
    }

    fn position(&self) -> Result<Vec<u8>> {
        encode(&self.position)
    }

    fn seek(&mut self, position: Option<&[u8]>) -> Result<()> {
        self.position = position.map_or(Ok(Position::default()), decode)?;
        self.find_places();
        self.left.clear();
        Ok(())
    }

    fn skip(&mut self, slice: &[u8]) -> Result<()> {
        for extent in decode::<Vec<Extent>>(slice)? {
            match extent {
                Extent::Whole { place, .. } => _ = self.position.whole.insert(place),
                Extent::Lines { path, identity, end, .. } => {
                    self.set_text(TextFile { path, identity, read: end });
                }
            }
        }
        Ok(())
    }
}

/// Where the last whole line of the next part of a file ends; none if there is no whole line.
fn end_of_lines(file: &mut File, path: &Path, start: u64, format: FileFormat) -> Result<Option<u64>> {
    file.seek(SeekFrom::Start(start)).map_err(|e| in_file(path, e))?;
    let mut text = Vec::new();
    let mut limit = SLICE_BYTES;
    loop {
        // A line that is longer than a part is read as a whole.
        let more = file.by_ref().take(limit).read_to_end(&mut text).map_err(|e| in_file(path, e))?;
        if let Some(end) = last_line_end(&text, format) {
            return Ok(Some(start + end));
        }
        if (more as u64) < limit {
            return Ok(None);
        }
        limit *= 2;
    }
}

/// The number of bytes up to the end of the last line. In a CSV file, a line does not end within quotes.
fn last_line_end(text: &[u8], format: FileFormat) -> Option<u64> {
    if format != FileFormat::Csv {
        return memchr::memrchr(b'\n', text).map(|at| at as u64 + 1);
    }
    let (mut in_quotes, mut end) = (false, None);
    for at in memchr::memchr2_iter(b'"', b'\n', text) {
        match text[at] {
            b'"' => in_quotes = !in_quotes,
            _ if !in_quotes => end = Some(at as u64 + 1),
            _ => {}
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_outside_of_quotes() {
        let end = |text: &str, format| last_line_end(text.as_bytes(), format);
        assert_eq!(end("a,b\n1,2\n3", FileFormat::Csv), Some(8));
        assert_eq!(end("a,\"x\ny\"\n1,\"half\n", FileFormat::Csv), Some(8));
        assert_eq!(end("1,\"a\"\"b\n\"\n", FileFormat::Csv), Some(10));
        assert_eq!(end("no end", FileFormat::Csv), None);
        assert_eq!(end("{\"a\": \"\\\"\"}\n{", FileFormat::Json), Some(12));
    }
}
