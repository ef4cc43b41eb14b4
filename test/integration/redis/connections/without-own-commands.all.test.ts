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

import './client-ownership.test.js';
import './connection-loss.test.js';
import './stalled-connections.test.js';
import '../server-errors.test.js';
