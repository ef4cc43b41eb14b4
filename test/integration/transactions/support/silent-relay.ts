import { TcpRelay } from '../../../support/tcp-relay.js';

/** A network that can fall silent: nothing arrives any more, and nobody is told. */
export interface SilentRelay {
  readonly url: string;
  /** How often something was sent in vain. */
  readonly lost: number;
  /** Silences the connections that there are; those that come are heard. */
  silence(): void;
  stop(): Promise<void>;
}

export async function startSilentRelay(url: string): Promise<SilentRelay> {
  const target = new URL(url);
  const relay = await TcpRelay.start(Number(target.port));
  target.port = String(relay.port);
  let generation = 0;
  let lost = 0;
  relay.tell(({ client, server }) => {
    const own = generation;
    client.on('data', (chunk) => {
      if (own === generation) server.write(chunk);
      else lost += 1;
    });
    server.on('data', (chunk) => {
      if (own === generation) client.write(chunk);
    });
  });
  return {
    url: target.href,
    get lost() {
      return lost;
    },
    silence: () => void (generation += 1),
    stop: () => relay.stop(),
  };
}
