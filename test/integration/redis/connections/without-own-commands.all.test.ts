import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterAll, beforeAll } from '@jest/globals';

// While it is subscribed, the store sends every command with a method of ioredis. The files below test the rest.
const CHANNEL = 'tracing:ioredis:command:start';
const onCommand = () => undefined;
beforeAll(() => {
  subscribe(CHANNEL, onCommand);
});
afterAll(() => {
  unsubscribe(CHANNEL, onCommand);
});

import './losses.test.js';
import '../server.test.js';
