import { runDoctor, type Finding } from '../../../support/internals/cli.js';

export interface Diagnosis {
  readonly code: number;
  readonly findings: readonly Finding[];
  /** The checks that are not ok, with their verdicts; without those that a busy machine can fail. */
  readonly complaints: Readonly<Record<string, Finding['verdict']>>;
  /** The messages of one check. */
  messageOf(check: string): string;
}

/** These depend on the machine: tests of their own hold them. */
const MEASURED = ['latency', 'clock'];

/** What the doctor prints with these arguments. */
export async function diagnose(...args: readonly string[]): Promise<Diagnosis> {
  let printed = '';
  const code = await runDoctor([...args, '--json'], (text) => {
    printed += text;
  });
  const findings = JSON.parse(printed) as Finding[];
  const wrong = findings.filter(
    ({ check, verdict }) => verdict !== 'ok' && !MEASURED.includes(check),
  );
  return {
    code,
    findings,
    complaints: Object.fromEntries(wrong.map(({ check, verdict }) => [check, verdict])),
    messageOf: (check) =>
      findings
        .filter((finding) => finding.check === check)
        .map(({ message }) => message)
        .join('\n'),
  };
}

/** The URL with this user and password. */
export function as(url: string, username: string, password: string): string {
  return Object.assign(new URL(url), { username, password }).href;
}
