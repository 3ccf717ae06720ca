//! The identity of a cluster: one certificate with its key, which all its processes have.
//!
//! It is made by the first process that connects, and kept in the control store. So who can read the store
//! belongs to the cluster, and nobody else does: servers and clients of frames show each other this
//! certificate, and accept no other (mutual TLS).
//!
//! Invariant: the key leaves this module only towards the store and TLS, and nothing that is shown has it.

use crate::error::of_store;
use crate::records::{SecretRecord, Tables};
use datafusion::common::{DataFusionError, Result, exec_err};
use std::fmt::Display;
use std::time::Duration;
use tonic::transport::{Certificate, ClientTlsConfig, Identity as TlsIdentity, ServerTlsConfig};
use whimbrel_control::Transaction;

/// The name in the certificate, which is that of no machine.
const NAME: &str = "whimbrel";

/// How long the other side may take to show its certificate.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// The row of the identity in the table of secrets.
const ROW: &str = "identity";

/// The certificate of a cluster, and its key.
#[derive(Clone)]
pub struct Identity {
    record: SecretRecord,
}

impl Identity {
    /// The identity of the cluster, which is made if there is none.
    ///
    /// # Errors
    /// Those of the store; `Execution` if no key can be made.
    pub fn of(tables: &Tables) -> Result<Identity> {
        let secrets = tables.secrets();
        if let Some(row) = secrets.get(ROW).map_err(of_store)? {
            return Ok(Identity { record: row.value });
        }
        let made = make()?;
        let put = Transaction::new()
            .when(secrets.unchanged(ROW, None))
            .then(secrets.put(ROW, &made).map_err(of_store)?);
        if tables.store.commit(&put).map_err(of_store)?.is_committed() {
            return Ok(Identity { record: made });
        }
        // Another process was faster.
        match secrets.get(ROW).map_err(of_store)? {
            Some(row) => Ok(Identity { record: row.value }),
            None => exec_err!("the identity of the cluster was removed while it was read"),
        }
    }

    /// What a server of frames shows, and what it wants to see.
    pub fn server(&self) -> ServerTlsConfig {
        ServerTlsConfig::new().identity(self.identity()).client_ca_root(self.certificate())
    }

    /// What a client of frames shows, and what it wants to see.
    pub fn client(&self) -> ClientTlsConfig {
        let config = ClientTlsConfig::new().identity(self.identity()).ca_certificate(self.certificate());
        config.domain_name(NAME).timeout(HANDSHAKE_TIMEOUT)
    }

    fn identity(&self) -> TlsIdentity {
        TlsIdentity::from_pem(&self.record.certificate, &self.record.key)
    }

    fn certificate(&self) -> Certificate {
        Certificate::from_pem(&self.record.certificate)
    }
}

/// A new certificate, which signs itself.
fn make() -> Result<SecretRecord> {
    let failed = |error: &dyn Display| {
        DataFusionError::Execution(format!("no certificate can be made for the cluster: {error}"))
    };
    let made = rcgen::generate_simple_self_signed(vec![NAME.to_string()]).map_err(|e| failed(&e))?;
    Ok(SecretRecord { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use whimbrel_control::MemoryStore;

    #[test]
    fn all_processes_of_a_cluster_have_one_identity() {
        let tables = Tables { store: Arc::new(MemoryStore::default()) };
        let first = Identity::of(&tables).unwrap();
        assert_eq!(Identity::of(&tables).unwrap().record, first.record);
        let other = Identity::of(&Tables { store: Arc::new(MemoryStore::default()) }).unwrap();
        assert_ne!(other.record, first.record);
        assert!(!format!("{:?}", first.record).contains("PRIVATE"));
    }
}
