//! Warnings of certificates that end. One that a program renews in time never has any.

use std::sync::Arc;

use birdhouse_dashboard::{Subject, Warning};
use birdhouse_net::Certificate;

use super::shown::Shown;
use crate::sockets::{BoundListener, Standing, Validity};

/// Remedy of a certificate that ends.
const ADVICE: &str = "Renew it, and look at the program that should have done so. Birdhouse takes the new files by \
                      itself; if it does not, its log has the reason.";

/// A certificate, and the names of the listeners that show it.
struct Served {
    certificate: Arc<Certificate>,
    listeners: Vec<String>,
}

/// Returns a warning for each certificate in use that should have been renewed. `now` is in seconds since 1970.
pub(super) fn warnings(shown: &Shown, now: u64) -> Vec<Warning> {
    let served = served(shown.listeners.iter().chain(&shown.others));
    served.iter().filter_map(|served| warning(served, now)).collect()
}

/// Returns the certificates of listeners, each once.
fn served<'a>(listeners: impl Iterator<Item = &'a BoundListener>) -> Vec<Served> {
    let mut all: Vec<Served> = Vec::new();
    for listener in listeners {
        let Some(certificate) = listener.transport.certificate() else { continue };
        match all.iter_mut().find(|served| Arc::ptr_eq(&served.certificate, certificate)) {
            Some(served) => served.listeners.push(listener.name.clone()),
            None => {
                all.push(Served { certificate: Arc::clone(certificate), listeners: vec![listener.name.clone()] });
            }
        }
    }
    all
}

fn warning(served: &Served, now: u64) -> Option<Warning> {
    let state = match Validity::of(&served.certificate.leaf_in_use()).ok()?.at(now) {
        Standing::Valid { .. } => return None,
        Standing::Ending { days_left: 0 } => "ends within a day".to_owned(),
        Standing::Ending { days_left: 1 } => "ends in a day".to_owned(),
        Standing::Ending { days_left } => format!("ends in {days_left} days"),
        Standing::Expired => "has expired".to_owned(),
    };
    let names = served.listeners.join(", ");
    Some(Warning {
        about: format!("certificate {names}"),
        subject: Subject::Certificate,
        text: format!("The certificate of {names} {state}."),
        advice: ADVICE.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs;
    use std::path::Path;

    use birdhouse_net::Transport;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    /// 2026-04-01, as `date -u -d 2026-04-01 +%s` prints it.
    const END: u64 = 1_775_001_600;

    /// Opens a certificate of 90 days.
    fn certificate(folder: &Path) -> Arc<Certificate> {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2026, 4, 1));
        let (key, file) = (KeyPair::generate().unwrap(), folder.join("pair.pem"));
        fs::write(&file, params.self_signed(&key).unwrap().pem() + &key.serialize_pem()).unwrap();
        Arc::new(Certificate::open(&file, &file).unwrap())
    }

    #[test]
    fn listeners_with_one_certificate_have_one_warning_from_two_weeks_on() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let [first, second] = [certificate(folder.path()), certificate(other.path())];
        let listener = |name: &str, transport| {
            let addr = ([127, 0, 0, 1], 4).into();
            BoundListener { name: name.to_owned(), serves: "the relay", addr, transport }
        };
        let shown = Shown {
            listeners: vec![
                listener("tcp", Transport::Tcp),
                listener("tls", Transport::Tls(Arc::clone(&first))),
                listener("wss", Transport::Wss(first)),
            ],
            others: vec![listener("relay", Transport::Wss(second))],
            ..Shown::default()
        };
        let texts = |now| warnings(&shown, now).into_iter().map(|warning| warning.text).collect::<Vec<_>>();
        assert_eq!(texts(END - 14 * 86_400), [""; 0]);
        let of_both = |state: &str| ["tls, wss", "relay"].map(|names| format!("The certificate of {names} {state}."));
        assert_eq!(texts(END - 9 * 86_400), of_both("ends in 9 days"));
        assert_eq!(texts(END - 1), of_both("ends within a day"));
        assert_eq!(texts(END), of_both("has expired"));
        let warning = &warnings(&shown, END)[0];
        assert_eq!((warning.about.as_str(), warning.subject), ("certificate tls, wss", Subject::Certificate));
    }
}
