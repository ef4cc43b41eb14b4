export interface DemoSettings {
  readonly orders: number;
  readonly seed: number;
  /** An existing broker; `undefined` starts one. */
  readonly brokerUrl: string | undefined;
}

/** @throws Error that names the invalid variable. */
export function demoSettings(environment: NodeJS.ProcessEnv): DemoSettings {
  const brokerUrl = environment.BROKER_URL;
  if (brokerUrl !== undefined && !brokerUrl.startsWith('amqp://')) {
    throw new Error(
      'The demo cuts connections through a proxy: BROKER_URL must start with amqp://',
    );
  }
  return {
    orders: wholeNumber('DEMO_ORDERS', environment.DEMO_ORDERS ?? '1000', 1, 100_000),
    seed: wholeNumber('DEMO_SEED', environment.DEMO_SEED ?? '1', 0, 2 ** 31 - 1),
    brokerUrl,
  };
}

function wholeNumber(name: string, text: string, min: number, max: number): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= min && number <= max) return number;
  throw new Error(`${name} must be an integer from ${min} to ${max}, got ${text}`);
}
