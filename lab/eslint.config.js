import { defineConfig } from 'eslint/config';
import root, { ofTestFiles, ofTests } from '../eslint.config.js';

/** `npm run lint` at the root takes it for what is in this folder. */
export default defineConfig(
  root,
  { files: ['**/*.ts'], rules: ofTests },
  { files: ['**/*.test.ts'], rules: ofTestFiles },
);
