// What every Node program here has in common: how it is asked, what it posts, when it ends.
//
//   node program.mjs prepare|fill|create|work '{"store": ..., ...}'
//
// It runs in the folder where its peer was installed, says what came of it as one line of JSON, and ends when its
// standard input does, or after an hour.

import { createRequire } from 'node:module';
import { join } from 'node:path';

export const load = createRequire(join(process.cwd(), 'package.json'));
export const options = JSON.parse(process.argv[3]);

const LIFE_MS = 3_600_000;
const BATCH = 1_000;
const CALLERS = 32;

const say = (value) => process.stdout.write(JSON.stringify(value) + '\n');

// Number n of a load: due at first_ms, and one more each step_us.
export function job(number) {
  const due = new Date(options.first_ms + Math.floor((number * options.step_us) / 1_000));
  return { due, data: { url: options.url, due: due.toISOString(), number, body: options.body } };
}

export function poster(connections) {
  const { Pool } = load('undici');
  const pools = new Map();
  return async ({ url, due, number, body }) => {
    const { origin, pathname } = new URL(url);
    if (!pools.has(origin)) pools.set(origin, new Pool(origin, { connections }));
    const answer = await pools.get(origin).request({
      method: 'POST',
      path: pathname,
      headers: { 'content-type': 'application/json', 'webhook-id': String(number), 'tasktick-scheduled-at': due },
      body,
    });
    await answer.body.dump();
    if (answer.statusCode !== 200) throw new Error(`answered with ${answer.statusCode}`);
  };
}

const jobs = (from, count) => Array.from({ length: count }, (_, n) => job(from + n));

async function fill(client) {
  for (let at = 0; at < options.count; at += BATCH) await client.addMany(jobs(at, Math.min(BATCH, options.count - at)));
  say({ created: options.count });
}

// So many callers, each with one call under way, for so long; the calls that are under way at the end are waited for.
// Each calls once before that: connections are made and statements prepared by then.
async function create(client, { callers, per_call: perCall, seconds }) {
  let created = 0;
  let numbers = 0;
  const call = async () => {
    const from = numbers;
    numbers += perCall;
    await (perCall === 1 ? client.add(job(from)) : client.addMany(jobs(from, perCall)));
    created += perCall;
  };
  const each = (work) => Promise.all(Array.from({ length: callers }, work));
  await each(call);
  const [before, began] = [created, performance.now()];
  await each(async () => {
    while (performance.now() < began + seconds * 1_000) await call();
  });
  say({ created, timed: created - before, seconds: (performance.now() - began) / 1_000 });
}

// A peer: prepare() makes its tables; open(connections) gives { add(job), addMany(jobs) }; work() starts its worker.
export async function run(peer) {
  process.stdin.resume().on('close', () => process.exit(0));
  process.on('SIGTERM', () => process.exit(0));
  setTimeout(() => process.exit(1), LIFE_MS);
  switch (process.argv[2]) {
    case 'prepare':
      await peer.prepare();
      say({});
      break;
    case 'fill':
      await fill(await peer.open(CALLERS));
      break;
    case 'create':
      await create(await peer.open(options.callers), options);
      break;
    case 'work':
      await peer.work();
      say({ ready: true });
      return;
    default:
      throw new Error(`there is no ${process.argv[2]}`);
  }
  process.exit(0);
}
