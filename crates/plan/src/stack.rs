//! Room for walks over deep trees. Parsers, planners, printers and the end of a value walk a tree by
//! recursion: a stack as it is given to a thread ends after some thousand levels, and the process with it.

/// What a walk over any tree needs that is let in: a condition of ten thousand terms is as deep as that where
/// DataFusion puts it together. It is address space; memory is what a walk touches.
const ROOM: usize = 256 << 20;

/// Works where there is room for such walks: on this thread's stack, or on another one.
pub fn with_room<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ROOM / 2, ROOM, work)
}

/// The same where it is needed.
pub fn with_room_if<T>(is_deep: bool, work: impl FnOnce() -> T) -> T {
    match is_deep {
        true => with_room(work),
        false => work(),
    }
}

/// The same for walks over trees of so many levels, which take less than a kilobyte a level.
pub fn with_room_for<T>(levels: usize, work: impl FnOnce() -> T) -> T {
    let room = levels.saturating_mul(1 << 10);
    stacker::maybe_grow(room + (1 << 20), 2 * room + ROOM, work)
}
