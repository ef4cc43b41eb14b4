#!/usr/bin/env bash
# @nestjs/schedule 12.0.2, RxJS 7.8.2, XState 5.33.3, memory-cache 0.2.0, expiry-map 2.0.0, rate-limiter-flexible 11.4.0, Node 20.20:
# a time of 25 days or more is over at once. A monthly job runs without a pause, and what was to be known for a month is forgotten.
#
# setTimeout keeps its delay in 32 bits, and takes what is longer than 24.8 days for 1 ms. Node says so on stderr, without the place.
# These libraries hand a time of theirs on as it is, in seconds or as a date as well. @Interval() runs the billing of 30 days some
# hundred times a second, @Timeout() at start; an order that should lapse after 30 days lapses in a millisecond; a key that is kept
# for 30 days against a second payment is gone before the retry, and so is a limit per month. 24 days are right in all of them.
# Others looked: toad-scheduler 4.1.0 throws and names another class; @isaacs/ttlcache 2.1.5, lru-cache 11.5.3 (ttlAutopurge) and
# node-cache 5.1.2 keep the entry. RxJS's page of timer() has a note on setTimeout's limits, and memory-cache's readme says that it
# uses setTimeout; no word was found in the readmes of the others.
#
# Seen, 0.2 s after the start:
#   @nestjs/schedule, @Interval(): 24 days has not run, 30 days runs again and again
#   @nestjs/schedule, @Timeout(): 24 days has not run, 30 days has run
#   RxJS, interval(): 24 days has not run, 30 days runs again and again
#   RxJS, timer() of a date: 24 days has not run, 30 days has run
#   XState, after: 24 days open, 30 days lapsed
#   memory-cache: 24 days refused, 30 days paid again
#   expiry-map: 24 days refused, 30 days paid again
#   rate-limiter-flexible, memory: 24 days refused, 30 days paid again
#   toad-scheduler, SimpleIntervalJob: 24 days has not run, 30 days throws
#   @isaacs/ttlcache: 24 days refused, 30 days refused
#   lru-cache: 24 days refused, 30 days refused
#   node-cache: 24 days refused, 30 days refused
set -euo pipefail
self=$(realpath "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
echo '{"private":true,"type":"module"}' >package.json
npm install --silent --no-audit --no-fund --ignore-scripts @nestjs/schedule@12.0.2 @nestjs/common@12.5.1 @nestjs/core@12.5.1 \
  reflect-metadata@0.2.2 rxjs@7.8.2 xstate@5.33.3 memory-cache@0.2.0 expiry-map@2.0.0 rate-limiter-flexible@11.4.0 \
  toad-scheduler@4.1.0 @isaacs/ttlcache@2.1.5 lru-cache@11.5.3 node-cache@5.1.2
cat >seen.mjs <<'JS'
import 'reflect-metadata';
import { setTimeout as sleep } from 'node:timers/promises';
import { TTLCache } from '@isaacs/ttlcache';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Interval, ScheduleModule, Timeout } from '@nestjs/schedule';
import ExpiryMap from 'expiry-map';
import { LRUCache } from 'lru-cache';
import memoryCache from 'memory-cache';
import NodeCache from 'node-cache';
import { RateLimiterMemory } from 'rate-limiter-flexible';
import { interval, timer } from 'rxjs';
import { SimpleIntervalJob, Task, ToadScheduler } from 'toad-scheduler';
import { createActor, createMachine } from 'xstate';

const day = 86_400_000;
const later = () => sleep(200);
const ran = (runs) => (runs === 0 ? 'has not run' : runs === 1 ? 'has run' : 'runs again and again');

async function byNest(decorate, days) {
  let runs = 0;
  class Billing {
    run() {
      runs += 1;
    }
  }
  decorate(days * day)(Billing.prototype, 'run', Object.getOwnPropertyDescriptor(Billing.prototype, 'run'));
  class Application {}
  Module({ imports: [ScheduleModule.forRoot()], providers: [Billing] })(Application);
  const application = await NestFactory.createApplicationContext(Application, { logger: false });
  await later();
  await application.close();
  return ran(runs);
}
async function byRxjs(observable) {
  let runs = 0;
  const subscription = observable.subscribe(() => (runs += 1));
  await later();
  subscription.unsubscribe();
  return ran(runs);
}
async function byToad(days) {
  let runs = 0;
  const scheduler = new ToadScheduler();
  try {
    scheduler.addSimpleIntervalJob(new SimpleIntervalJob({ days }, new Task('billing', () => (runs += 1))));
  } catch {
    return 'throws';
  }
  await later();
  scheduler.stop();
  return ran(runs);
}
async function byXstate(days) {
  const order = { initial: 'open', states: { open: { after: { [days * day]: 'lapsed' } }, lapsed: {} } };
  const actor = createActor(createMachine(order)).start();
  await later();
  actor.stop();
  return actor.getSnapshot().value;
}
/** A payment whose key is remembered, and its retry. */
async function byMemory({ has, set }) {
  const pay = () => (has('key') ? 'refused' : (set('key', true), 'paid again'));
  pay();
  await later();
  return pay();
}
const ofMap = (map) => byMemory({ has: (key) => map.get(key) === true, set: (key, value) => map.set(key, value) });
async function byLimiter(days) {
  const limiter = new RateLimiterMemory({ points: 1, duration: (days * day) / 1000 });
  await limiter.consume('key');
  await later();
  return limiter.consume('key').then(
    () => 'paid again',
    () => 'refused',
  );
}
const ways = {
  '@nestjs/schedule, @Interval()': (days) => byNest(Interval, days),
  '@nestjs/schedule, @Timeout()': (days) => byNest(Timeout, days),
  'RxJS, interval()': (days) => byRxjs(interval(days * day)),
  'RxJS, timer() of a date': (days) => byRxjs(timer(new Date(Date.now() + days * day))),
  'XState, after': byXstate,
  'memory-cache': (days) => {
    const cache = new memoryCache.Cache();
    return byMemory({ has: (key) => cache.get(key) === true, set: (key, value) => cache.put(key, value, days * day) });
  },
  'expiry-map': (days) => ofMap(new ExpiryMap(days * day)),
  'rate-limiter-flexible, memory': byLimiter,
  'toad-scheduler, SimpleIntervalJob': byToad,
  '@isaacs/ttlcache': (days) => ofMap(new TTLCache({ ttl: days * day })),
  'lru-cache': (days) => ofMap(new LRUCache({ max: 10, ttl: days * day, ttlAutopurge: true })),
  'node-cache': (days) => ofMap(new NodeCache({ stdTTL: (days * day) / 1000 })),
};
for (const [name, way] of Object.entries(ways)) console.log(`${name}: 24 days ${await way(24)}, 30 days ${await way(30)}`);
process.exit();
JS
diff <(sed -n 's/^#   //p' "$self") <(timeout 60 node --disable-warning=TimeoutOverflowWarning seen.mjs)
echo "as described"
