import io.github.jopenlibs.vault.Vault;
import io.github.jopenlibs.vault.VaultConfig;
import io.github.jopenlibs.vault.VaultException;
import io.github.jopenlibs.vault.api.Auth;
import io.github.jopenlibs.vault.api.sys.mounts.MountPayload;
import io.github.jopenlibs.vault.api.sys.mounts.MountType;
import io.github.jopenlibs.vault.api.sys.mounts.TimeToLive;
import io.github.jopenlibs.vault.json.JsonObject;
import io.github.jopenlibs.vault.response.AuthResponse;
import io.github.jopenlibs.vault.response.LogicalResponse;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/** Drives the server with the Java Vault driver: VAULT_ADDR and VAULT_TOKEN name it. */
public final class Walk {
  private static int checks = 0;

  private interface Work {
    Object run() throws VaultException;
  }

  private static void want(String name, boolean is) {
    if (!is) {
      throw new IllegalStateException(name);
    }
    checks++;
    System.out.println("ok " + name);
  }

  private static void refused(String name, int status, Work work) {
    try {
      Object told = work.run();
      if (told instanceof LogicalResponse) {
        want(name, ((LogicalResponse) told).getRestResponse().getStatus() == status);
        return;
      }
      want(name, false);
    } catch (VaultException error) {
      want(name, error.getHttpStatusCode() == status);
    }
  }

  private static Vault client(String token, int version) throws VaultException {
    VaultConfig config = new VaultConfig().address(System.getenv("VAULT_ADDR")).engineVersion(version);
    return Vault.create((token == null ? config : config.token(token)).build());
  }

  private static void mount(Vault root, String path, MountType type) throws VaultException {
    TimeToLive day = TimeToLive.of(24, TimeUnit.HOURS);
    MountPayload payload = new MountPayload().defaultLeaseTtl(day).maxLeaseTtl(day).description("java");
    root.sys().mounts().enable(path, type, payload);
  }

  public static void main(String[] args) throws VaultException {
    String token = System.getenv("VAULT_TOKEN");
    Vault one = client(token, 1);
    want("health", one.debug().health().getInitialized() && !one.debug().health().getSealed());

    mount(one, "java-v1", MountType.KEY_VALUE);
    one.logical().write("java-v1/a/b", Map.of("user", "u"));
    want("kv v1", one.logical().read("java-v1/a/b").getData().get("user").equals("u"));
    want("kv v1 list", one.logical().list("java-v1/a").getListData().equals(List.of("b")));
    one.logical().delete("java-v1/a/b");
    refused("kv v1 gone", 404, () -> one.logical().read("java-v1/a/b"));
    one.sys().mounts().disable("java-v1");

    Vault two = client(token, 2);
    two.logical().write("secret/java/a", Map.of("v", "1"));
    two.logical().write("secret/java/a", Map.of("v", "2"));
    want("kv v2", two.logical().read("secret/java/a").getData().get("v").equals("2"));
    want("kv v2 old version", two.logical().read("secret/java/a", true, 1).getData().get("v").equals("1"));
    want("kv v2 list", two.logical().list("secret/java").getListData().equals(List.of("a")));
    two.logical().delete("secret/java/a", new int[] {2});
    refused("kv v2 deleted", 404, () -> two.logical().read("secret/java/a"));
    two.logical().unDelete("secret/java/a", new int[] {2});
    want("kv v2 undeleted", two.logical().read("secret/java/a").getData().get("v").equals("2"));

    String rules = "path \"secret/data/java/mine/*\" { capabilities = [\"create\", \"read\"] }";
    one.logical().write("sys/policies/acl/java-p", Map.of("policy", rules));
    Auth.TokenRequest asked = new Auth.TokenRequest().id(UUID.randomUUID()).ttl("1h").polices(List.of("java-p"));
    AuthResponse made = one.auth().createToken(asked);
    Vault mine = client(made.getAuthClientToken(), 2);
    mine.logical().write("secret/java/mine/x", Map.of("a", "b"));
    want("a token reads its own", mine.logical().read("secret/java/mine/x").getData().get("a").equals("b"));
    refused("and nothing else", 403, () -> mine.logical().read("secret/java/a"));
    want("lookup", mine.auth().lookupSelf().getTTL() > 3500);
    want("renew", mine.auth().renewSelf(600).getAuthLeaseDuration() == 600);
    mine.auth().revokeSelf();
    refused("a revoked token", 403, () -> mine.auth().lookupSelf());

    String wrapped = one.auth().createToken(new Auth.TokenRequest().ttl("1h"), "token").getAuthClientToken();
    want("a second token", !wrapped.isEmpty());
    String wrap = one.sys().wrapping().wrap(new JsonObject().add("k", "v"), 60).getToken();
    want("wrapped", wrap != null && !wrap.isEmpty());
    want("unwrapped", one.sys().wrapping().unwrap(wrap).getData().get("k").asString().equals("v"));
    refused("a wrapped answer is given once", 400, () -> one.sys().wrapping().unwrap(wrap));

    one.logical().write("sys/auth/java-approle", Map.of("type", "approle"));
    one.logical().write("auth/java-approle/role/web", Map.of("token_policies", "java-p", "token_ttl", "10m"));
    String role = one.logical().read("auth/java-approle/role/web/role-id").getData().get("role_id");
    String secret = one.logical().write("auth/java-approle/role/web/secret-id", null).getData().get("secret_id");
    AuthResponse login = client(null, 1).auth().loginByAppRole("java-approle", role, secret);
    want("approle", login.getAuthLeaseDuration() == 600 && login.getAuthPolicies().contains("java-p"));
    refused("approle: a wrong secret id", 400, () -> client(null, 1).auth().loginByAppRole("java-approle", role, "wrong"));
    one.logical().delete("sys/auth/java-approle");

    one.logical().write("sys/mounts/java-transit", Map.of("type", "transit"));
    one.logical().write("java-transit/keys/k", null);
    String sealed = one.logical().write("java-transit/encrypt/k", Map.of("plaintext", "aGVsbG8=")).getData().get("ciphertext");
    String opened = one.logical().write("java-transit/decrypt/k", Map.of("ciphertext", sealed)).getData().get("plaintext");
    want("transit", opened.equals("aGVsbG8="));
    System.out.println(checks + " checks");
  }
}
