import { testOn } from './test-on.js';

await testOn('Valkey', 'trixie');
