//! The writer of metrics: each service writes its own families to the metrics.

use std::fmt::Result;

use birdhouse_electrum::Histogram;
use birdhouse_net::SeatCounts;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// A writer of metrics.
pub(crate) struct MetricsWriter<'a>(pub(crate) DescriptorEncoder<'a>);

impl MetricsWriter<'_> {
    /// Writes facts as the labels of one value.
    pub(crate) fn info(&mut self, name: &str, help: &str, facts: &[(&str, &str); 1]) -> Result {
        self.0.encode_descriptor(name, help, None, MetricType::Info)?.encode_info(facts)
    }

    /// Writes one value that rises and falls.
    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue + Copy) -> Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// Writes one value that only rises.
    pub(crate) fn counter(&mut self, name: &str, help: &str, value: impl EncodeCounterValue + Copy) -> Result {
        let mut metric = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    /// Writes a gauge for each set of labels.
    pub(crate) fn labelled_gauges<'v, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = ([(&'v str, &'v str); N], u64)>,
    ) -> Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Writes a counter for each set of labels.
    pub(crate) fn labelled_counters<'v, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = ([(&'v str, &'v str); N], impl EncodeCounterValue)>,
    ) -> Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }

    /// Writes a histogram for each value of a label.
    pub(super) fn histograms(&mut self, name: &str, help: &str, label: &str, values: &[(&str, Histogram)]) -> Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (value, Histogram { buckets, sum }) in values {
            let count = buckets.iter().map(|(_, count)| count).sum();
            family.encode_family(&[(label, *value)])?.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)?;
        }
        Ok(())
    }

    /// Writes the connections of a server: those that are open, by listener, and those that had to leave.
    pub(crate) fn connections(&mut self, server: &str, open: &[(String, usize)], left: SeatCounts) -> Result {
        self.labelled_gauges(
            &format!("{server}_connections"),
            "Open connections by listener.",
            open.iter().map(|(listener, count)| ([("listener", listener.as_str())], count_of(*count))),
        )?;
        let SeatCounts { network, displaced, half_open: _ } = left;
        self.labelled_counters(
            &format!("{server}_refused_connections"),
            "Connections that were closed for a newcomer of their network, which has too many, or for any when all places \
             were taken.",
            [("network", network), ("displaced", displaced)]
                .map(|(reason, count)| ([("reason", reason)], count))
                .into_iter(),
        )
    }
}

/// Returns a count as a metric has it.
pub(crate) fn count_of(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
