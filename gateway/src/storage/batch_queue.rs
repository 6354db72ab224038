//! Questions to the database that come at the same time travel together.
//!
//! What one locate query or one small write costs the server is little beside what a statement of its own costs it and
//! this process in protocol, system calls, task switches and, for writes, a COMMIT. So while a few statements are under
//! way, further questions wait for one of them to come back, and then go as one. Nobody waits while the server is idle, and
//! a server that is slow to answer (cold pages, locks, a slow disk) is asked more at once rather than longer.
//!
//! A caller that goes away takes nobody with it: whatever waits is handed to a task of its own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use tokio::sync::oneshot;

use super::processors;

/// Questions of one kind, and how they are asked.
pub(super) trait Batch: Send + Sync + 'static {
    /// What somebody asks.
    type Question: Send + 'static;
    /// What comes back.
    type Answer: Send + 'static;

    /// Questions that one statement asks at most.
    const MAX_BATCH: usize;
    /// A statement that takes longer than this is not worth waiting for.
    const PATIENCE: Duration;

    /// Whether a question may travel with those before it.
    fn may_join(_batch: &[Self::Question], _next: &Self::Question) -> bool {
        true
    }

    /// Asks one.
    fn ask(&self, question: &Self::Question) -> impl Future<Output = Self::Answer> + Send;

    /// Asks several by one statement; there are as many answers, in the order of the questions. `None` where each has to
    /// be asked by itself.
    fn ask_all(&self, batch: &[Self::Question]) -> impl Future<Output = Option<Vec<Self::Answer>>> + Send;
}

/// Questions of a batch that could not be asked together which are asked at once: one that takes long shall not keep the
/// others, and they shall not take all connections.
const APART_AT_ONCE: usize = 4;

/// The queue. Cheap to clone.
pub(super) struct BatchQueue<B: Batch>(Arc<Inner<B>>);

impl<B: Batch> Clone for BatchQueue<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Inner<B: Batch> {
    batch: B,
    /// Statements under way that others wait for.
    statements: usize,
    state: Mutex<State<B>>,
}

struct State<B: Batch> {
    waiting: VecDeque<(B::Question, oneshot::Sender<B::Answer>)>,
    running: usize,
    last_sent: Instant,
}

/// A statement that may be sent; when it is given back, what waits meanwhile goes next.
struct Turn<B: Batch>(BatchQueue<B>);

impl<B: Batch> BatchQueue<B> {
    /// Half as many statements at once as there are processors: what waits a little longer travels in better company.
    pub(super) fn new(batch: B) -> Self {
        Self::with_statements(batch, (processors() / 2).max(1))
    }

    fn with_statements(batch: B, statements: usize) -> Self {
        let state = State { waiting: VecDeque::new(), running: 0, last_sent: Instant::now() };
        Self(Arc::new(Inner { batch, statements, state: Mutex::new(state) }))
    }

    /// Asks, alone or together with others. `None` where whoever was to answer is gone: a panic, or a runtime that stops.
    pub(super) async fn ask(&self, question: B::Question) -> Option<B::Answer> {
        let queued = {
            let mut state = self.state();
            if state.running < self.0.statements || state.last_sent.elapsed() > B::PATIENCE {
                state.running += 1;
                state.last_sent = Instant::now();
                Err(question)
            } else {
                let (reply, answer) = oneshot::channel();
                state.waiting.push_back((question, reply));
                Ok(answer)
            }
        };
        match queued {
            Err(question) => {
                let _turn = Turn(self.clone());
                Some(self.0.batch.ask(&question).await)
            }
            Ok(mut answer) => {
                let mut patience = B::PATIENCE;
                loop {
                    match tokio::time::timeout(patience, &mut answer).await {
                        Ok(answer) => return answer.ok(),
                        Err(_) => self.hurry(),
                    }
                    patience *= 2;
                }
            }
        }
    }

    /// Sends what waits where nothing was sent for too long: what is under way may be stuck.
    fn hurry(&self) {
        {
            let mut state = self.state();
            if state.waiting.is_empty() || state.last_sent.elapsed() < B::PATIENCE {
                return;
            }
            state.running += 1;
            state.last_sent = Instant::now();
        }
        tokio::spawn(self.clone().work(Turn(self.clone())));
    }

    /// Sends what waits, until nothing does.
    async fn work(self, turn: Turn<B>) {
        loop {
            let (mut questions, mut replies) = self.next_batch();
            if let [_] = questions.as_slice()
                && let (Some(question), Some(reply)) = (questions.pop(), replies.pop())
            {
                // Whoever asked may have gone.
                let _ = reply.send(self.0.batch.ask(&question).await);
            } else if questions.is_empty() {
                break;
            } else if let Some(answers) = self.0.batch.ask_all(&questions).await {
                for (reply, answer) in replies.into_iter().zip(answers) {
                    let _ = reply.send(answer);
                }
            } else {
                // Beside the queue, which goes on.
                tokio::spawn(self.clone().ask_apart(questions, replies));
            }
        }
        drop(turn);
    }

    async fn ask_apart(self, questions: Vec<B::Question>, replies: Vec<oneshot::Sender<B::Answer>>) {
        let asked = futures::stream::iter(questions.into_iter().zip(replies));
        asked
            .for_each_concurrent(APART_AT_ONCE, async |(question, reply)| {
                let _ = reply.send(self.0.batch.ask(&question).await);
            })
            .await;
    }

    /// The first that waits and those behind it that may travel with it.
    fn next_batch(&self) -> (Vec<B::Question>, Vec<oneshot::Sender<B::Answer>>) {
        let (mut questions, mut replies, mut left) = (Vec::new(), Vec::new(), VecDeque::new());
        let mut state = self.state();
        state.last_sent = Instant::now();
        while questions.len() < B::MAX_BATCH
            && let Some((question, reply)) = state.waiting.pop_front()
        {
            if B::may_join(&questions, &question) {
                questions.push(question);
                replies.push(reply);
            } else {
                left.push_back((question, reply));
            }
        }
        left.append(&mut state.waiting);
        state.waiting = left;
        (questions, replies)
    }

    fn state(&self) -> MutexGuard<'_, State<B>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Batch> Drop for Turn<B> {
    fn drop(&mut self) {
        let waits = {
            let mut state = self.0.state();
            if state.waiting.is_empty() {
                state.running -= 1;
                false
            } else {
                true
            }
        };
        // The turn goes on, in a task of its own.
        if waits {
            let queue = self.0.clone();
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(queue.clone().work(Turn(queue)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::Semaphore;

    /// Answers with the question and the size of its batch, once it may.
    struct Echo(Arc<Semaphore>);

    impl Batch for Echo {
        type Question = u32;
        type Answer = (u32, usize);
        const MAX_BATCH: usize = 3;
        const PATIENCE: Duration = Duration::from_secs(3600);

        fn may_join(batch: &[u32], next: &u32) -> bool {
            !batch.contains(next)
        }

        async fn ask(&self, question: &u32) -> (u32, usize) {
            if let Ok(permit) = self.0.acquire().await {
                permit.forget();
            }
            (*question, 1)
        }

        async fn ask_all(&self, batch: &[u32]) -> Option<Vec<(u32, usize)>> {
            if let Ok(permit) = self.0.acquire().await {
                permit.forget();
            }
            Some(batch.iter().map(|n| (*n, batch.len())).collect())
        }
    }

    async fn queued(queue: &BatchQueue<Echo>, questions: &[u32]) -> Vec<tokio::task::JoinHandle<Option<(u32, usize)>>> {
        let mut asked = Vec::new();
        for question in questions {
            let (queue, question) = (queue.clone(), *question);
            asked.push(tokio::spawn(async move { queue.ask(question).await }));
            tokio::task::yield_now().await;
        }
        asked
    }

    #[tokio::test]
    async fn what_waits_travels_together_and_never_with_what_it_may_not_join() {
        let gate = Arc::new(Semaphore::new(0));
        let queue = BatchQueue::with_statements(Echo(Arc::clone(&gate)), 1);
        let asked = queued(&queue, &[1, 2, 3, 2, 4, 5]).await;
        gate.add_permits(9);
        let mut answers = Vec::new();
        for answer in asked {
            answers.push(answer.await.expect("no panic").expect("an answer"));
        }
        // 1 alone, then 2, 3, 4 without the second 2, then that one and 5
        assert_eq!(answers, [(1, 1), (2, 3), (3, 3), (2, 2), (4, 3), (5, 2)]);
    }

    /// A 1 is never answered, and cannot be asked together with others.
    struct Stuck;

    impl Batch for Stuck {
        type Question = u32;
        type Answer = u32;
        const MAX_BATCH: usize = 8;
        const PATIENCE: Duration = Duration::from_millis(10);

        async fn ask(&self, question: &u32) -> u32 {
            if *question == 1 { std::future::pending().await } else { *question }
        }

        async fn ask_all(&self, batch: &[u32]) -> Option<Vec<u32>> {
            (!batch.contains(&1)).then(|| batch.to_vec())
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_one_that_is_stuck_neither_alone_nor_in_a_batch() {
        let queue = BatchQueue::with_statements(Stuck, 1);
        for _ in 0..2 {
            let others = futures::future::join_all([2, 3, 4, 5, 6, 7].map(|n| queue.ask(n)));
            tokio::select! {
                biased;
                _ = async { futures::join!(queue.ask(1), queue.ask(1)) } => unreachable!("a 1 is never answered"),
                answers = others => assert_eq!(answers, [2, 3, 4, 5, 6, 7].map(Some)),
            }
        }
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_takes_nobody_with_it() {
        let gate = Arc::new(Semaphore::new(0));
        let queue = BatchQueue::with_statements(Echo(Arc::clone(&gate)), 1);
        let mut asked = queued(&queue, &[1, 2]).await;
        asked.remove(0).abort();
        tokio::task::yield_now().await;
        gate.add_permits(9);
        assert_eq!(asked.remove(0).await.expect("no panic"), Some((2, 1)));
        assert_eq!(queue.ask(3).await, Some((3, 1)));
    }
}
