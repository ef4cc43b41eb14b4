import { jest } from '@jest/globals';
import * as byGlide from './support/open-glide-link.js';

// The same faults, with the link of GLIDE.
jest.unstable_mockModule('./support/open-link.js', () => byGlide);

await import('./losses.test.js');
await import('./outages.test.js');
