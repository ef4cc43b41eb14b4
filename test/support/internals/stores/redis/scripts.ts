export {
  loadScripts,
  type LuaScripts,
} from '../../../../../lib/stores/redis/scripts/lua-scripts.js';
