import type { TextModule } from '../../packages/shipped-texts/option-texts.js';
import { oneKey } from './one-key.js';
import { whichStore } from './which-store.js';

/** The drawings of the documentation. */
export function pictures(): TextModule[] {
  return [
    { path: 'docs/pictures/one-key.svg', source: oneKey() },
    { path: 'docs/pictures/which-store.svg', source: whichStore() },
  ];
}
