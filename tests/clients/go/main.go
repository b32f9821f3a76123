// Drives the server with Vault's own Go client: VAULT_ADDR and VAULT_TOKEN name it. Prints one line a
// check.
package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"

	vault "github.com/hashicorp/vault/api"
	"github.com/hashicorp/vault/api/auth/approle"
)

var (
	ctx    = context.Background()
	checks int
)

func ok(name string) {
	checks++
	fmt.Println("ok", name)
}

func must[T any](value T, err error) T {
	if err != nil {
		fail(err.Error())
	}
	return value
}

func do(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(what string) {
	fmt.Println("FAIL", what)
	os.Exit(1)
}

func want(name string, is bool) {
	if !is {
		fail(name)
	}
	ok(name)
}

func refused(name string, status int, err error) {
	var answer *vault.ResponseError
	want(name, errors.As(err, &answer) && answer.StatusCode == status)
}

func client(token string) *vault.Client {
	made := must(vault.NewClient(vault.DefaultConfig()))
	made.SetToken(token)
	return made
}

func main() {
	root := client(os.Getenv("VAULT_TOKEN"))
	health(root)
	keyValueOne(root)
	keyValueTwo(root)
	tokens(root)
	wrapping(root)
	appRole(root)
	transit(root)
	leases(root)
	fmt.Println(checks, "checks")
}

func health(root *vault.Client) {
	told := must(root.Sys().Health())
	want("health", told.Initialized && !told.Sealed && !told.Standby)
	want("leader", must(root.Sys().Leader()) != nil)
	mounts := must(root.Sys().ListMounts())
	want("mounts", mounts["sys/"] != nil && mounts["cubbyhole/"] != nil && mounts["identity/"] != nil)
	want("auth mounts", must(root.Sys().ListAuth())["token/"] != nil)
}

func keyValueOne(root *vault.Client) {
	do(root.Sys().Mount("go-v1", &vault.MountInput{Type: "kv", Options: map[string]string{"version": "1"}}))
	kv := root.KVv1("go-v1")
	do(kv.Put(ctx, "a/b", map[string]any{"user": "u"}))
	want("kv v1 get", must(kv.Get(ctx, "a/b")).Data["user"] == "u")
	listed := must(root.Logical().List("go-v1/"))
	want("kv v1 list", fmt.Sprint(listed.Data["keys"]) == "[a/]")
	do(kv.Delete(ctx, "a/b"))
	_, err := kv.Get(ctx, "a/b")
	want("kv v1 gone", errors.Is(err, vault.ErrSecretNotFound))
	do(root.Sys().Unmount("go-v1"))
}

func keyValueTwo(root *vault.Client) {
	do(root.Sys().Mount("go-v2", &vault.MountInput{Type: "kv-v2"}))
	kv := root.KVv2("go-v2")
	want("kv v2 put", must(kv.Put(ctx, "a", map[string]any{"v": "1"})).VersionMetadata.Version == 1)
	must(kv.Put(ctx, "a", map[string]any{"v": "2"}, vault.WithCheckAndSet(1)))
	_, err := kv.Put(ctx, "a", map[string]any{"v": "3"}, vault.WithCheckAndSet(1))
	refused("kv v2 stale check-and-set", 400, err)
	patched := must(kv.Patch(ctx, "a", map[string]any{"w": "3"}))
	want("kv v2 patch", patched.VersionMetadata.Version == 3)
	got := must(kv.Get(ctx, "a"))
	want("kv v2 get", got.Data["v"] == "2" && got.Data["w"] == "3")
	want("kv v2 old version", must(kv.GetVersion(ctx, "a", 1)).Data["v"] == "1")
	want("kv v2 versions", len(must(kv.GetVersionsAsList(ctx, "a"))) == 3)
	do(kv.PutMetadata(ctx, "a", vault.KVMetadataPutInput{CustomMetadata: map[string]any{"team": "x"}}))
	want("kv v2 metadata", must(kv.GetMetadata(ctx, "a")).CustomMetadata["team"] == "x")
	do(kv.Delete(ctx, "a"))
	do(kv.Undelete(ctx, "a", []int{3}))
	do(kv.Destroy(ctx, "a", []int{1}))
	want("kv v2 rollback", must(kv.Rollback(ctx, "a", 2)).VersionMetadata.Version == 4)
}

func tokens(root *vault.Client) {
	rules := `path "go-v2/data/mine/*" { capabilities = ["create", "read"] }`
	do(root.Sys().PutPolicy("go-p", rules))
	want("policy", must(root.Sys().GetPolicy("go-p")) == rules)
	made := must(root.Auth().Token().Create(&vault.TokenCreateRequest{Policies: []string{"go-p"}, TTL: "1h"}))
	mine := client(made.Auth.ClientToken)
	must(mine.KVv2("go-v2").Put(ctx, "mine/x", map[string]any{"a": "b"}))
	_, err := mine.KVv2("go-v2").Get(ctx, "a")
	refused("a token may no more than its policies say", 403, err)
	self := must(mine.Auth().Token().LookupSelf())
	want("lookup", must(self.TokenIsRenewable()) && len(must(self.TokenPolicies())) == 2)
	want("renew", must(mine.Auth().Token().RenewSelf(600)).Auth.LeaseDuration == 600)
	caps := must(root.Sys().Capabilities(made.Auth.ClientToken, "go-v2/data/mine/x"))
	want("capabilities", fmt.Sprint(caps) == "[create read]")
	do(root.Auth().Token().RevokeAccessor(made.Auth.Accessor))
	_, err = mine.Auth().Token().LookupSelf()
	refused("a revoked token", 403, err)
	batch := must(root.Auth().Token().Create(&vault.TokenCreateRequest{Type: "batch", TTL: "1h", Policies: []string{"go-p"}}))
	want("a batch token", strings.HasPrefix(batch.Auth.ClientToken, "hvb.") && batch.Auth.Accessor == "")
	must(client(batch.Auth.ClientToken).KVv2("go-v2").Get(ctx, "mine/x"))
	ok("a batch token reads")
}

func wrapping(root *vault.Client) {
	wraps := client(root.Token())
	wraps.SetWrappingLookupFunc(func(string, string) string { return "60s" })
	wrapped := must(wraps.Logical().Read("go-v2/metadata/a"))
	want("wrapped", wrapped.WrapInfo != nil && wrapped.WrapInfo.TTL == 60)
	told := must(root.Logical().Unwrap(wrapped.WrapInfo.Token))
	want("unwrapped", fmt.Sprint(told.Data["current_version"]) == "4")
	_, err := root.Logical().Unwrap(wrapped.WrapInfo.Token)
	refused("a wrapped answer is given once", 400, err)
}

func appRole(root *vault.Client) {
	do(root.Sys().EnableAuthWithOptions("go-approle", &vault.EnableAuthOptions{Type: "approle"}))
	must(root.Logical().Write("auth/go-approle/role/web", map[string]any{"token_policies": "go-p", "token_ttl": "10m", "secret_id_num_uses": 1}))
	role := must(root.Logical().Read("auth/go-approle/role/web/role-id")).Data["role_id"].(string)
	secret := must(root.Logical().Write("auth/go-approle/role/web/secret-id", nil)).Data["secret_id"].(string)
	method := must(approle.NewAppRoleAuth(role, &approle.SecretID{FromString: secret}, approle.WithMountPath("go-approle")))
	anyone := client("")
	told := must(anyone.Auth().Login(ctx, method))
	want("approle login", told.Auth.LeaseDuration == 600)
	must(anyone.KVv2("go-v2").Get(ctx, "mine/x"))
	_, err := client("").Auth().Login(ctx, method)
	want("a secret id of one use is used up", err != nil && strings.Contains(err.Error(), "invalid role or secret ID"))
	do(root.Sys().DisableAuth("go-approle"))
}

func transit(root *vault.Client) {
	do(root.Sys().Mount("go-transit", &vault.MountInput{Type: "transit"}))
	must(root.Logical().Write("go-transit/keys/k", map[string]any{"type": "ed25519"}))
	input := base64.StdEncoding.EncodeToString([]byte("message"))
	signed := must(root.Logical().Write("go-transit/sign/k", map[string]any{"input": input}))
	verified := must(root.Logical().Write("go-transit/verify/k", map[string]any{"input": input, "signature": signed.Data["signature"]}))
	want("transit sign and verify", verified.Data["valid"] == true)
	must(root.Logical().Write("go-transit/keys/e", nil))
	sealed := must(root.Logical().Write("go-transit/encrypt/e", map[string]any{"plaintext": input}))
	opened := must(root.Logical().Write("go-transit/decrypt/e", map[string]any{"ciphertext": sealed.Data["ciphertext"]}))
	want("transit encrypt and decrypt", opened.Data["plaintext"] == input)
}

func leases(root *vault.Client) {
	made := must(root.Auth().Token().Create(&vault.TokenCreateRequest{Policies: []string{"default"}, TTL: "1h"}))
	watcher := must(client(made.Auth.ClientToken).NewLifetimeWatcher(&vault.LifetimeWatcherInput{Secret: made}))
	go watcher.Start()
	renewed := <-watcher.RenewCh()
	watcher.Stop()
	want("the lifetime watcher renews", renewed.Secret.Auth.LeaseDuration > 3500)
}
