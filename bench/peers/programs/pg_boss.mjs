// pg-boss with four pollers of a thousand jobs each, at the shortest interval that it takes.

import { load, options, poster, run } from './contract.mjs';

const PgBoss = load('pg-boss');
const QUEUE = 'post';
const POLLERS = 4;
const BATCH = 1_000;
const POLL_SECONDS = 0.5;

async function start(connections) {
  const boss = new PgBoss({ connectionString: options.store, max: connections });
  boss.on('error', (error) => console.error(error.message));
  await boss.start();
  return boss;
}

await run({
  prepare: async () => (await start(4)).createQueue(QUEUE),
  async open(connections) {
    const boss = await start(connections);
    return {
      add: ({ due, data }) => boss.send(QUEUE, data, { startAfter: due }),
      addMany: (jobs) => boss.insert(jobs.map(({ due, data }) => ({ name: QUEUE, data, startAfter: due }))),
    };
  },
  async work() {
    const boss = await start(10);
    const post = poster(200);
    for (let number = 0; number < POLLERS; number += 1) {
      await boss.work(QUEUE, { batchSize: BATCH, pollingIntervalSeconds: POLL_SECONDS }, (jobs) =>
        Promise.all(jobs.map(({ data }) => post(data))),
      );
    }
  },
});
