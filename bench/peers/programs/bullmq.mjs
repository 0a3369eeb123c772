// BullMQ with one worker that runs 200 jobs at once.

import { load, options, poster, run } from './contract.mjs';

const { Queue, Worker } = load('bullmq');
const NAME = 'post';
const JOBS = 200;
const connection = { path: options.store, maxRetriesPerRequest: null };

// Due at an instant: BullMQ adds the delay to the job's own timestamp.
function timed(due) {
  const timestamp = Date.now();
  return { timestamp, delay: Math.max(due.getTime() - timestamp, 0) };
}

await run({
  async prepare() {},
  async open() {
    const queue = new Queue(NAME, { connection });
    await queue.waitUntilReady();
    return {
      add: ({ due, data }) => queue.add(NAME, data, timed(due)),
      addMany: (jobs) => queue.addBulk(jobs.map(({ due, data }) => ({ name: NAME, data, opts: timed(due) }))),
    };
  },
  async work() {
    const post = poster(JOBS);
    const worker = new Worker(NAME, ({ data }) => post(data), { connection, concurrency: JOBS });
    worker.on('error', (error) => console.error(error.message));
    await worker.waitUntilReady();
  },
});
