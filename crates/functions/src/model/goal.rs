//! What a user wants of the number of tasks, and the choice that serves it (starling.txt §4.3).

use std::time::Duration;

/// What a user wants of the number of tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// The number beyond which more dollars buy little time: the least product of both.
    Knee,
    /// The fastest that costs at most so many dollars.
    MaxCost(f64),
    /// The cheapest that takes at most so long.
    MaxLatency(Duration),
}

/// What a choice is made by: seconds, dollars, and gigabyte-seconds.
pub type Expected = (f64, f64, f64);

impl Goal {
    /// The place of the choice among what is expected, as seconds, dollars and gigabyte-seconds; the nearest
    /// one if none is good enough.
    pub fn choose(self, expected: &[Expected]) -> usize {
        // Machines that are there anyway cost nothing, and their memory is scarce all the same.
        let is_free = expected.iter().all(|(_, dollars, _)| *dollars == 0.0);
        // The least of these numbers, one after the other, is the best.
        let rank = |(seconds, dollars, memory): &Expected| {
            let cost = if is_free { *memory } else { *dollars };
            match self {
                Goal::Knee => [0.0, seconds * cost, *seconds],
                Goal::MaxCost(most) if *dollars <= most => [0.0, *seconds, cost],
                Goal::MaxLatency(most) if *seconds <= most.as_secs_f64() => [0.0, cost, *seconds],
                Goal::MaxCost(_) => [1.0, cost, *seconds],
                Goal::MaxLatency(_) => [1.0, *seconds, cost],
            }
        };
        let ranks = expected.iter().map(rank).enumerate();
        let best = ranks.min_by(|(_, a), (_, b)| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        best.map_or(0, |(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds and dollars of Q12 with 16 to 256 tasks (starling.txt, Fig. 14, read off): the knee is at
    /// 64 to 128.
    const FIGURE_14: [Expected; 5] =
        [(28.0, 0.157, 0.0), (17.0, 0.166, 0.0), (13.0, 0.197, 0.0), (11.0, 0.248, 0.0), (10.8, 0.36, 0.0)];

    #[test]
    fn goals_choose_as_the_paper_does() {
        assert_eq!(Goal::Knee.choose(&FIGURE_14), 2);
        assert_eq!(Goal::MaxCost(0.25).choose(&FIGURE_14), 3);
        assert_eq!(Goal::MaxLatency(Duration::from_secs(20)).choose(&FIGURE_14), 1);
    }

    #[test]
    fn the_nearest_is_chosen_if_none_is_good_enough() {
        assert_eq!(Goal::MaxCost(0.01).choose(&FIGURE_14), 0);
        assert_eq!(Goal::MaxLatency(Duration::from_secs(1)).choose(&FIGURE_14), 4);
    }

    #[test]
    fn machines_of_ones_own_are_chosen_by_their_time() {
        let free = [(4.0, 0.0, 8.0), (2.5, 0.0, 9.0), (2.4, 0.0, 20.0)];
        assert_eq!(Goal::Knee.choose(&free), 1);
    }
}
