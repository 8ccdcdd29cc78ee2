# JupyterHub with KubeSpawner. What is marked with (*) the API server asks of every pod that the hub starts.
c = get_config()  # noqa: F821

c.JupyterHub.spawner_class = "kubespawner.KubeSpawner"
c.JupyterHub.db_url = "sqlite:////srv/jupyterhub/jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = "/srv/jupyterhub/cookie-secret"
c.JupyterHub.hub_bind_url = "http://0.0.0.0:8081"
c.JupyterHub.hub_connect_url = "http://hub.ebbtide-hub.svc:8081"
c.JupyterHub.bind_url = "http://:8000/notebooks/"
c.JupyterHub.cleanup_servers = False  # notebooks outlive a restart of the hub
# Who may sign in is yours to say: c.JupyterHub.authenticator_class, and whom it lets in.

c.KubeSpawner.namespace = "ebbtide-hub"
c.KubeSpawner.image = "registry.example.com/labelling/notebook:4.2.0"

# (*) Category and budget: nobody moves a notebook, by day or by night.
c.KubeSpawner.extra_labels = {"ebbtide.dev/workload": "hub-pods", "ebbtide.dev/category": "worker"}

# (*) Nodes that come when a notebook needs one, and go when it has ended.
c.KubeSpawner.node_selector = {"ebbtide.dev/node-kind": "flexible"}

# (*) Requests: nodes are sized by them.
c.KubeSpawner.cpu_guarantee = 1
c.KubeSpawner.mem_guarantee = "4G"
c.KubeSpawner.mem_limit = "4G"

# (*) The Pod Security level `restricted`.
c.KubeSpawner.uid = 1000
c.KubeSpawner.gid = 1000
c.KubeSpawner.pod_security_context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
c.KubeSpawner.container_security_context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
