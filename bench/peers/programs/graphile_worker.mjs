// graphile-worker as its page on performance has it (a local queue of 500, completions in batches), with 100 jobs at
// once and a look every 100 ms.

import { load, options, poster, run } from './contract.mjs';

const worker = load('graphile-worker');
const JOBS = 100;
const logger = new worker.Logger(() => () => {});
const spec = ({ due, data }) => ({ identifier: 'post', payload: data, runAt: due });

await run({
  prepare: () => worker.runMigrations({ connectionString: options.store, logger }),
  async open(connections) {
    const utilities = await worker.makeWorkerUtils({
      connectionString: options.store,
      maxPoolSize: connections,
      logger,
    });
    return {
      add: ({ due, data }) => utilities.addJob('post', data, { runAt: due }),
      addMany: (jobs) => utilities.addJobs(jobs.map(spec)),
    };
  },
  async work() {
    const post = poster(JOBS);
    await worker.run({
      noHandleSignals: true,
      taskList: { post: (payload) => post(payload) },
      preset: {
        worker: {
          connectionString: options.store,
          concurrentJobs: JOBS,
          maxPoolSize: 25,
          pollInterval: 100,
          localQueue: { size: 500 },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
          logger,
        },
      },
    });
  },
});
