//! The parts of the configuration that can be changed.

use std::sync::Arc;

use super::Draft;
use crate::config::{StoredConfig, VERSION};
use crate::record::{CONFIG_KEY, META, to_json};
use crate::state::State;
use crate::{Durability, Quantization};

impl Draft<'_> {
    /// Keeps vectors so in segments frozen after this write.
    pub(crate) fn set_quantization(&mut self, quantization: Quantization) {
        self.next.config.graph.quantization = quantization;
        self.put_config();
    }

    /// Acknowledges writes by this promise, beginning with this one.
    pub(crate) fn set_durability(&mut self, durability: Durability) {
        self.next.config.durability = durability;
        self.put_config();
    }

    /// Says that this version wrote, if another did last.
    pub(super) fn sign(&mut self) {
        if self.next.format.written_by != VERSION {
            self.put_config();
        }
    }

    fn put_config(&mut self) {
        let State { config, identity, format, .. } = &self.next;
        let stored = StoredConfig::new(config, *identity, &format.made_by);
        self.visible.put(META, CONFIG_KEY, &to_json(&stored));
        self.next.format = Arc::new(stored.format());
    }
}
