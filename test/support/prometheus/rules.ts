import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { projectRoot } from '../project-root.js';

export interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: Readonly<Record<'summary' | 'description' | 'runbook_url', string>>;
}

export interface RuleFile {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Rule[] }[];
}

export const RULES_FILE = 'docs/operations/idempotency.rules.yml';

/** The rules that the package ships. */
export function readRules(): RuleFile {
  return parse(readFileSync(join(projectRoot, RULES_FILE), 'utf8')) as RuleFile;
}

export function rulesIn({ groups }: RuleFile): Rule[] {
  return groups.flatMap(({ rules }) => rules);
}
