//! Checkpoints: the states of all channels at the end of an epoch, and the positions of the sources
//! there.
//!
//! A checkpoint is a manifest and the blocks that its states are cut into. A block is named by its digest
//! and is cut where its contents say so (FastCDC), so what has not changed since the last checkpoint is
//! not written again. The manifest is written last: without it, the blocks are nobody's.

use crate::codec;
use crate::identity::Identity;
use crate::store::StateStore;
use datafusion::common::{Result, exec_err};
use fastcdc::v2020::FastCDC;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use whimbrel_sharded::ChannelState;
use whimbrel_sharded::program::ChannelId;

const MANIFESTS: &str = "checkpoints";
const BLOCKS: &str = "blocks";

/// The least, the usual and the most bytes of a block.
const BLOCK_BYTES: [usize; 3] = [64 << 10, 512 << 10, 4 << 20];

/// How many checkpoints are kept that the sink has caught up with: one may be damaged.
const KEPT: usize = 2;

/// A job at the end of an epoch.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    /// The epoch.
    pub epoch: u64,
    /// The position of each source.
    pub positions: Vec<Vec<u8>>,
    /// The state of each channel that has not ended.
    pub states: BTreeMap<ChannelId, ChannelState>,
}

/// A checkpoint without the bytes of its states.
#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    identity: Identity,
    epoch: u64,
    positions: Vec<Vec<u8>>,
    channels: Vec<SavedChannel>,
}

/// The state of a channel, in blocks.
#[derive(Debug, Serialize, Deserialize)]
struct SavedChannel {
    id: ChannelId,
    ended: Vec<bool>,
    routes: Vec<Vec<u8>>,
    blocks: Vec<[u8; 32]>,
}

/// The checkpoints of a job.
pub struct Checkpoints {
    store: Arc<dyn StateStore>,
    identity: Identity,
    /// The blocks that are in the store.
    blocks: BTreeSet<[u8; 32]>,
}

impl Checkpoints {
    /// The checkpoints in a store.
    pub fn new(store: Arc<dyn StateStore>, identity: Identity) -> Checkpoints {
        Checkpoints { store, identity, blocks: BTreeSet::new() }
    }

    /// Writes a checkpoint; it is durable once this returns.
    ///
    /// # Errors
    /// Those of the store.
    pub fn write(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let (mut objects, mut channels, mut new) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (id, state) in &checkpoint.states {
            let mut blocks = Vec::new();
            let [least, usual, most] = BLOCK_BYTES;
            for chunk in FastCDC::new(&state.program, least, usual, most) {
                let block = &state.program[chunk.offset..chunk.offset + chunk.length];
                let digest = *blake3::hash(block).as_bytes();
                if !self.blocks.contains(&digest) && new.insert(digest) {
                    objects.push((block_name(&digest), block.to_vec()));
                }
                blocks.push(digest);
            }
            let (ended, routes) = (state.ended.clone(), state.routes.clone());
            channels.push(SavedChannel { id: *id, ended, routes, blocks });
        }
        self.store.put(objects)?;
        self.blocks.extend(new);
        let manifest = Manifest {
            identity: self.identity.clone(),
            epoch: checkpoint.epoch,
            positions: checkpoint.positions.clone(),
            channels,
        };
        self.store.put(vec![(manifest_name(checkpoint.epoch), codec::seal(&manifest)?)])
    }

    /// The newest whole checkpoint that is not behind an epoch; also how many were damaged.
    ///
    /// # Errors
    /// `Execution` if a checkpoint is of another query or release; those of the store.
    pub fn newest(&mut self, last: u64) -> Result<(Option<Checkpoint>, usize)> {
        let mut damaged = 0;
        for epoch in self.epochs()?.into_iter().rev().filter(|epoch| *epoch <= last) {
            let manifest = self.manifest(epoch);
            if let Ok(manifest) = &manifest {
                self.identity.check(&manifest.identity, &self.store.describe())?;
            }
            match manifest.and_then(|manifest| self.load(manifest)) {
                Ok(checkpoint) => return Ok((Some(checkpoint), damaged)),
                // One that was written before may be whole.
                Err(_) => damaged += 1,
            }
        }
        Ok((None, damaged))
    }

    /// Removes checkpoints that will not be needed, which are those before the two newest that are not
    /// ahead of `committed`, and all blocks that no checkpoint has. Returns the epoch of the oldest that is
    /// left, if nothing before it is needed: while there are fewer than two, the job may have to be begun at
    /// its beginning.
    ///
    /// # Errors
    /// Those of the store.
    pub fn prune(&mut self, committed: u64) -> Result<Option<u64>> {
        let epochs = self.epochs()?;
        // A damaged manifest will not be used, so it keeps no other from being needed.
        let whole = epochs.iter().filter_map(|epoch| Some((*epoch, self.manifest(*epoch).ok()?)));
        let whole: Vec<(u64, Manifest)> = whole.collect();
        let usable = whole.iter().filter(|(epoch, _)| *epoch <= committed).count();
        let kept = &whole[usable.saturating_sub(KEPT)..];
        let oldest = kept.first().map_or(0, |(epoch, _)| *epoch);
        let old: Vec<String> = epochs.into_iter().filter(|e| *e < oldest).map(manifest_name).collect();
        self.store.remove(&old)?;
        let channels = kept.iter().flat_map(|(_, manifest)| &manifest.channels);
        let used: BTreeSet<[u8; 32]> = channels.flat_map(|channel| channel.blocks.iter().copied()).collect();
        let stored = self.store.list(BLOCKS)?;
        let names: BTreeSet<String> = used.iter().map(hex).collect();
        let unused = stored.into_iter().filter(|name| !names.contains(name));
        let unused: Vec<String> = unused.map(|name| format!("{BLOCKS}/{name}")).collect();
        self.store.remove(&unused)?;
        self.blocks = used;
        Ok((usable >= KEPT).then_some(oldest))
    }

    fn manifest(&self, epoch: u64) -> Result<Manifest> {
        let name = manifest_name(epoch);
        match self.store.get(&name)? {
            Some(bytes) => codec::open(&bytes, &name),
            None => exec_err!("`{name}` is gone"),
        }
    }

    /// Reads the states of a checkpoint.
    fn load(&mut self, manifest: Manifest) -> Result<Checkpoint> {
        let mut states = BTreeMap::new();
        let mut used = BTreeSet::new();
        for SavedChannel { id, ended, routes, blocks } in manifest.channels {
            let mut program = Vec::new();
            for digest in &blocks {
                let block = self.store.get(&block_name(digest))?.unwrap_or_default();
                if blake3::hash(&block).as_bytes() != digest {
                    return exec_err!("a block of the checkpoint of epoch {} is damaged", manifest.epoch);
                }
                program.extend_from_slice(&block);
            }
            used.extend(blocks);
            states.insert(id, ChannelState { ended, program, routes });
        }
        self.blocks = used;
        Ok(Checkpoint { epoch: manifest.epoch, positions: manifest.positions, states })
    }

    fn epochs(&self) -> Result<Vec<u64>> {
        Ok(self.store.list(MANIFESTS)?.iter().filter_map(|name| name.parse().ok()).collect())
    }
}

fn manifest_name(epoch: u64) -> String {
    format!("{MANIFESTS}/{epoch:012}")
}

fn block_name(digest: &[u8; 32]) -> String {
    format!("{BLOCKS}/{}", hex(digest))
}

fn hex(digest: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*digest).to_hex().to_string()
}
