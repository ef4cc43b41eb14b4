#!/usr/bin/env bash
# bee-queue 2.0.0, better-queue 3.8.12, Bottleneck 2.19.5, async-lock 1.5.0, p-queue 10.0.0, redis-server 7.0 (Debian 12), Node 20.20:
# a job that takes longer than its timeout goes on, and its retry, or whoever waited, runs beside it, with a concurrency of one.
#
# A payment that the bank answers in its own time, a timeout against one that hangs, and two retries: bee-queue and better-queue begin
# the second try while the first is at work, and the third beside both. Each of them ends well and pays; the queue reports that the
# job has failed. async-lock, which is asked for so that two do not meet, lets the second in at maxExecutionTime, and Bottleneck at
# `expiration`, with maxConcurrent 1. None of the four hands the work a signal to stop at. p-queue does the same, but has a signal,
# and says in its readme that a task that does not look at it keeps running; nothing of the kind was found in the others' readmes.
#
# Seen:
#   bee-queue, two retries: paid 3 times, 3 at once, reported as failed
#   better-queue, two retries: paid 3 times, 3 at once, reported as failed
#   Bottleneck, two jobs: paid 2 times, 2 at once, reported as failed
#   async-lock, two owners: paid 2 times, 2 at once, reported as failed
#   p-queue, two jobs: paid 2 times, 2 at once, reported as failed
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; } ; rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts bee-queue@2.0.0 better-queue@3.8.12 bottleneck@2.19.5 async-lock@1.5.0 \
  p-queue@10.0.0
port=$(node -e 'const s=require("net").createServer().listen(0,"127.0.0.1",()=>{console.log(s.address().port);s.close()})')
redis-server --port "$port" --bind 127.0.0.1 --save '' >server.log &
server=$!
for _ in $(seq 100); do redis-cli -p "$port" ping >/dev/null 2>&1 && break || sleep 0.1; done
cat >seen.mjs <<'JS'
import { setTimeout as sleep } from 'node:timers/promises';
import AsyncLock from 'async-lock';
import BeeQueue from 'bee-queue';
import BetterQueue from 'better-queue';
import Bottleneck from 'bottleneck';
import PQueue from 'p-queue';

const timeout = 200;
/** A bank that answers when all that could begin has begun. */
function bank() {
  const state = { paid: 0, inside: 0, atOnce: 0 };
  let answer;
  const answered = new Promise((resolve) => (answer = resolve));
  const pay = async () => {
    state.inside += 1;
    state.atOnce = Math.max(state.atOnce, state.inside);
    await answered;
    state.inside -= 1;
    state.paid += 1;
    return 'receipt';
  };
  return { state, pay, answer };
}
const endOf = (results) => (results.every(({ status }) => status === 'rejected') ? 'failed' : 'done');
const twice = async (call) => endOf(await Promise.allSettled([call(), call()]));

const ways = {
  'bee-queue, two retries': async ({ pay }) => {
    const queue = new BeeQueue('pay', { redis: { host: '127.0.0.1', port: Number(process.argv[2]) } });
    queue.process(1, () => pay());
    const job = await queue.createJob({}).timeout(timeout).retries(2).save();
    return new Promise((resolve) => {
      job.on('failed', () => resolve('failed'));
      job.on('succeeded', () => resolve('done'));
    });
  },
  'better-queue, two retries': ({ pay }) => {
    const options = { concurrent: 1, maxTimeout: timeout, maxRetries: 3, retryDelay: 1 };
    const queue = new BetterQueue((_task, done) => void pay().then((receipt) => done(null, receipt)), options);
    return new Promise((resolve) => {
      queue.push({ id: 'order' }).on('failed', () => resolve('failed')).on('finish', () => resolve('done'));
    });
  },
  'Bottleneck, two jobs': ({ pay }) => {
    const limiter = new Bottleneck({ maxConcurrent: 1 });
    return twice(() => limiter.schedule({ expiration: timeout }, () => pay()));
  },
  'async-lock, two owners': ({ pay }) => {
    const lock = new AsyncLock({ maxExecutionTime: timeout });
    return twice(() => lock.acquire('account', () => pay()));
  },
  'p-queue, two jobs': ({ pay }) => {
    const queue = new PQueue({ concurrency: 1, timeout });
    return twice(() => queue.add(() => pay()));
  },
};
for (const [name, way] of Object.entries(ways)) {
  const { state, pay, answer } = bank();
  const end = await way({ pay });
  answer();
  await sleep(100);
  console.log(`${name}: paid ${state.paid} times, ${state.atOnce} at once, reported as ${end}`);
}
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node seen.mjs "$port")
echo "as described"
