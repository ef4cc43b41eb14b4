import { MessageServers } from '../../../lab/faults/messages/message-servers.js';
import { sharedServer } from '../../support/servers/shared/shared-server.js';

/** What the runs of a file share, on the servers of all files. It may take as long as these take to start. */
export async function startMessageServers(): Promise<MessageServers> {
  const [broker, redis] = await Promise.all([sharedServer('rabbitmq'), sharedServer('redis')]);
  return MessageServers.start({ broker: { ...broker, dir: broker.dir! }, redis });
}
